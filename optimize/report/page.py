"""`report.html`: one file with everything about a run, opened without a server or the internet.

    write_report("runs/thresholds")        # -> runs/thresholds/report.html

The page decides with the same rules as `crag_dspy.actions.decide`, on outcomes that are all in the file, so its sliders
show what Python would compute. Text of documents is data: it is embedded as JSON that cannot end its element, shown
only as text nodes, and a content security policy lets no script run but the page's own.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

from crag_dspy.optimize.report.contents import report_data
from crag_dspy.optimize.runs.folder import REPORT
from crag_dspy.state.files import write_whole

TEMPLATE = "report.html"
# What ends an element or a line of script, and half characters, which no file can hold.
_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")
_DATA, _TITLE, _POLICY = "@@DATA@@", "@@TITLE@@", "@@POLICY@@"


def write_report(run: str | Path, to: str | Path | None = None) -> Path:
    """Write the report of a run, and return where it is.

    Args:
        run: the folder of a search of thresholds, a compilation, an evaluation or a comparison.
        to: the file; None for `report.html` in the folder.

    Raises:
        ConfigError: the folder holds no run.
    """
    path = Path(to).expanduser() if to is not None else Path(run).expanduser() / REPORT
    write_whole(path, render(report_data(run)))
    return path


def render(data: dict[str, Any]) -> str:
    """The page of some report data."""
    template = resources.files("crag_dspy.optimize.report").joinpath(TEMPLATE).read_text(encoding="utf-8")
    before, rest = template.split(_DATA)
    head = before.replace(_TITLE, html.escape(str(data.get("name", "run")))).replace(_POLICY, _policy(rest))
    return head + embedded(data) + rest


def embedded(data: Any) -> str:
    """JSON that can stand inside a <script> element: nothing in it can end the element or open another."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _policy(rest: str) -> str:
    """Nothing is loaded, and only the page's own script runs: it is named by its digest."""
    script = rest.split("<script>", 1)[1].split("</script>", 1)[0]
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode()
    rules = [
        "default-src 'none'",
        f"script-src 'sha256-{digest}'",
        "style-src 'unsafe-inline'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join(rules)
