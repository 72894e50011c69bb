"""The report of a run: one file, which computes what Python computes and lets no document act."""

from __future__ import annotations

import html
import json
import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy import CRAG, RAG, Passage
from crag_dspy.actions import POLICIES, Action, Thresholds, decide
from crag_dspy.errors import ConfigError
from crag_dspy.optimize.comparison.comparing import compare
from crag_dspy.optimize.metrics.answers import contains_word
from crag_dspy.optimize.metrics.objective import Prices, combine
from crag_dspy.optimize.prompts.compiling import compile_program
from crag_dspy.optimize.report.contents import report_data
from crag_dspy.optimize.report.page import embedded, write_report
from crag_dspy.optimize.runs.evaluation import evaluate
from crag_dspy.optimize.runs.folder import read_rows
from crag_dspy.optimize.thresholds.search import search_thresholds

sys.path.insert(0, str(Path(__file__).parent))
from chromium import BINARY, Browser, Page, chromium

needs_chromium = pytest.mark.skipif(BINARY is None, reason="needs Chromium: apt-get install chromium")

EVIL = (
    "<script>window.hacked = 1; document.title = 'hacked'</script></script><img src=x onerror='window.hacked = 1'>"
    "<!-- <script> \u2028 ]]> {{7*7}} & \ud83d\ude00"
)
CITIES = [f"City{number}" for number in range(30)]


class NumberGrader:
    """Scores made up from the texts, with ties, the ends of the scale, and what it could not judge."""

    name, fingerprint = "numbers", "numbers-1"

    def score(self, question: str, texts: Sequence[str]) -> list[float | None]:
        scale = [None, -1.0, -0.6, -0.2, -0.2, 0.3, 0.3, 0.7, 1.0]
        return [random.Random(question + text[:20]).choice(scale) for text in texts]


def find(query: str, k: int) -> list[Passage]:
    number = int(re.sub(r"\D", "", query))
    texts = [f"Town {number} lies in City{number}.", f"Town {number} is old.", f"Rain falls on {number}."]
    return [
        Passage(
            f"{text} {EVIL}", id=f"{number}-{i}", title=f"<b>Town {number}</b>", url="javascript:alert(1)"
        )
        for i, text in enumerate(texts[: number % 4])
    ]


def web(query: str, max_results: int) -> list[dict[str, str]]:
    number = int(re.sub(r"\D", "", query))
    text = f"City{number} is where {number} lies. {EVIL}"
    return [{"title": "Page", "url": f"https://web/{number}", "content": text}]


def program(**settings: Any) -> CRAG:
    return CRAG(
        find, NumberGrader(), web, **{"upper": 0.5, "lower": -0.5, "strip_threshold": -1.0, **settings}
    )


def devset(count: int = 30) -> list[dspy.Example]:
    made = []
    for number, city in enumerate(CITIES[:count]):
        answers = [city] if number % 7 else []
        made.append(
            dspy.Example(question=f"Where does town {number} lie?", answers=answers).with_inputs("question")
        )
    return made


@pytest.fixture
def lm(scripted_lm: Any) -> Any:
    """Reads the city out of its context, most of the time."""

    def answer(request: Any) -> str:
        found = re.search(r"City\d+", request.inputs.get("context", ""))
        return found[0] if found and len(request.text) % 5 else f"I guess {EVIL}"

    return scripted_lm({"answer": answer, "query": lambda request: request.inputs["question"]})


@pytest.fixture
def searched(lm: Any, tmp_path: Path) -> Callable[..., Path]:
    """The folder of a search of thresholds on thirty questions."""

    def run(metric: Any = contains_word, **options: Any) -> Path:
        folder = tmp_path / "thresholds"
        with dspy.context(lm=lm):
            search_thresholds(program(), devset(), metric, run=folder, threads=1, progress=False, **options)
        return folder

    return run


@pytest.fixture(scope="module")
def browser(tmp_path_factory: Any) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("chromium")) as opened:
        yield opened


def expected(folder: Path, upper: float, lower: float, policy: str) -> dict[str, Any]:
    """What these thresholds are worth by `decide` on the rows of the run, at the cut of the evidence that is kept."""
    cut = json.loads((folder / "metrics.json").read_text())["kept"]["evidence_threshold"]
    by_key: dict[str, dict[Action, dict[str, Any]]] = {}
    for row in read_rows(folder / "results.jsonl"):
        by_key.setdefault(row["key"], {})[Action(row["action"])] = row
    actions: list[Action] = []
    chosen = []
    for rows in by_key.values():
        scores = next(row["scores"] for row in rows.values() if row["scores"] is not None)
        actions.append(decide(scores, Thresholds(upper, lower), policy))
        row = rows[actions[-1]]
        weak = row["evidence_score"] is not None and row["evidence_score"] < cut
        chosen.append({**row, **row["declined"]} if weak else row)
    return {
        "n": len(chosen),
        "quality": sum(row["quality"] for row in chosen) / len(chosen),
        "lm_calls": sum(row["cost"]["lm_calls"] for row in chosen) / len(chosen),
        "searches": sum(action is not Action.CORRECT for action in actions),
        "actions": {action.value: actions.count(action) for action in Action},
    }


def same(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert found["missing"] == 0
    assert {name: found[name] for name in wanted} == {
        name: pytest.approx(value, abs=1e-12) for name, value in wanted.items()
    }


def change(page: Page, name: str, value: Any, event: str) -> None:
    """Do to a control what a person would."""
    page.run(
        f"(() => {{ const one = document.getElementById('{name}'); one.value = {json.dumps(value)}; "
        f"one.dispatchEvent(new Event('{event}')); }})()"
    )


# In a browser


@needs_chromium
def test_moving_a_slider_shows_what_python_computes(searched: Any, browser: Browser) -> None:
    folder = searched()
    page = browser.open(write_report(folder))
    rng = random.Random(5)
    for _ in range(6):
        lower, upper = sorted(round(rng.uniform(-1, 1), 2) for _ in range(2))
        moves = [("lower", -1.0), ("upper", upper), ("lower", lower)]  # as a hand would, one at a time
        for name, value in moves:
            change(page, name, value, "input")
            page.settled()
        wanted = expected(folder, upper, lower, "max")
        same(page.run("cragReport.totals(cragReport.state.upper, cragReport.state.lower, 'max')"), wanted)
        named = "(one) => [one.dataset.name, one.firstChild.textContent]"
        shown = page.run(f"Object.fromEntries([...document.querySelectorAll('#cards dd')].map({named}))")
        assert shown["quality"] == f"{wanted['quality']:.3f}"
        assert shown["searches"] == str(wanted["searches"])
        assert {action: shown[action] for action in wanted["actions"]} == {
            action: str(count) for action, count in wanted["actions"].items()
        }
        assert shown["calls"] == f"{wanted['lm_calls']:.2f}"
    assert page.errors == []


@needs_chromium
@pytest.mark.parametrize("policy", POLICIES)
def test_it_decides_as_python_does(policy: str, searched: Any, browser: Browser) -> None:
    """Also on a score exactly, at the ends of the scale, and where a passage could not be judged."""
    folder = searched()
    page = browser.open(write_report(folder))
    cuts = [-1.0, -0.6, -0.4, -0.2, 0.3, 0.30000000000000004, 0.7, 1.0]
    for upper in cuts:
        for lower in (cut for cut in cuts if cut <= upper):
            found = page.run(f"cragReport.totals({upper!r}, {lower!r}, '{policy}')")
            same(found, expected(folder, upper, lower, policy))


@needs_chromium
def test_the_best_thresholds_are_those_of_the_search(searched: Any, browser: Browser) -> None:
    metric = combine(contains_word, Prices(search=0.1))
    folder = searched(metric)
    found = json.loads((folder / "metrics.json").read_text())
    page = browser.open(write_report(folder))
    kept = [found["kept"]["upper"], found["kept"]["lower"]]
    assert page.run("[cragReport.state.upper, cragReport.state.lower]") == kept
    at = page.run(f"cragReport.totals({found['upper']!r}, {found['lower']!r}, 'max')")
    assert at["value"] == pytest.approx(found["value"], abs=1e-12)
    assert at["searches"] == found["searches"]
    for point in found["frontier"]:
        there = page.run(f"cragReport.totals({point['upper']!r}, {point['lower']!r}, 'max')")
        assert (there["searches"], there["quality"]) == (
            point["searches"],
            pytest.approx(point["value"], abs=1e-12),
        )


@needs_chromium
def test_a_document_with_a_script_does_nothing(searched: Any, browser: Browser) -> None:
    page = browser.open(write_report(searched()))
    page.run("document.querySelectorAll('#list details').forEach((one) => { one.open = true; })")
    page.settled()
    shown = page.run("document.getElementById('list').textContent")
    assert "<script>window.hacked = 1" in shown  # as text
    assert page.run("typeof window.hacked") == "undefined"
    assert page.run("document.title") == "thresholds"
    assert page.run("document.querySelectorAll('#list script, #list img, #list b b').length") == 0
    links = page.run("[...document.querySelectorAll('a')].map((one) => one.getAttribute('href'))")
    assert links
    assert all(link.startswith("https://web/") for link in links)
    assert page.errors == []
    assert [url for url in page.requests if not url.startswith(("file:", "data:"))] == []


@needs_chromium
def test_no_script_but_its_own_runs(searched: Any, browser: Browser) -> None:
    """Even if a text became an element, the page's policy would not let it act."""
    page = browser.open(write_report(searched()))
    page.run(
        "const made = document.createElement('div'); made.innerHTML = '<img src=x onerror=\"window.hacked = 1\">'; "
        "document.body.append(made); const script = document.createElement('script'); "
        "script.textContent = 'window.hacked = 2'; document.body.append(script)"
    )
    page.settled()
    assert page.run("typeof window.hacked") == "undefined"


@needs_chromium
def test_questions_are_filtered_and_show_their_trace(searched: Any, browser: Browser) -> None:
    folder = searched()
    page = browser.open(write_report(folder))

    def choose(name: str, value: str) -> int:
        change(page, name, value, "input" if name == "find" else "change")
        return int(page.run("document.getElementById('count').textContent").split()[0])

    actions = {action: choose("action", action) for action in ("correct", "ambiguous", "incorrect")}
    assert actions == page.run(
        "cragReport.totals(cragReport.state.upper, cragReport.state.lower, 'max').actions"
    )
    assert choose("action", "") == 30
    assert choose("result", "right") + choose("result", "wrong") == 30
    choose("result", "")
    assert choose("find", "town 17 lie") == 1
    page.run("document.querySelector('#list details').open = true")
    page.settled()
    trace = page.run("document.querySelector('.trace').textContent")
    assert "City17" in trace
    assert page.run("document.querySelectorAll('.trace .tabs button').length") == len(
        [row for row in read_rows(folder / "results.jsonl") if row["question"] == "Where does town 17 lie?"]
    )


@needs_chromium
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_the_screen_in_both_languages(
    width: int, dark: bool, searched: Any, browser: Browser
) -> None:
    page = browser.open(write_report(searched()), width=width, dark=dark)
    for language in ("en", "zh-CN"):
        assert page.run("document.documentElement.lang") == language
        assert page.run("document.documentElement.scrollWidth") <= width
        page.run("document.getElementById('lang').click()")
        page.settled()
    light = page.run("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", light)[:3])) < 200) is dark
    assert page.errors == []


@needs_chromium
def test_both_languages_have_the_same_words(searched: Any, browser: Browser) -> None:
    page = browser.open(write_report(searched()))
    assert page.run("Object.keys(WORDS.en).sort()") == page.run("Object.keys(WORDS.zh).sort()")
    holes = "(words) => Object.values(words).map((text) => (text.match(/\\{\\w+\\}/g) ?? []).sort().join())"
    assert page.run(f"({holes})(WORDS.en)") == page.run(f"({holes})(WORDS.zh)")


@needs_chromium
def test_what_a_search_warns_of_is_said_in_the_readers_language(
    searched: Any, lm: Any, browser: Browser
) -> None:
    """A search of before said so when it promised no more than it began with; its folder still opens."""
    folder = searched()
    summary = json.loads((folder / "metrics.json").read_text())
    told = "on unseen questions the search does no better than the thresholds it started from"
    (folder / "metrics.json").write_text(json.dumps({**summary, "warnings": [told]}))
    page = browser.open(write_report(folder))
    warned = "[...document.querySelectorAll('ul.warn li')].map((one) => one.textContent)"
    assert page.run(warned) == [told]
    page.run("document.getElementById('lang').click()")
    page.settled()
    assert page.run(warned) == ["在未见过的问题上，搜索结果并不优于原来的阈值"]


@needs_chromium
def test_the_axis_of_counts_has_whole_numbers_where_it_says(searched: Any, browser: Browser) -> None:
    """Five questions in four steps would put a "3" at 2.5."""
    page = browser.open(write_report(searched()))
    for most in (1, 2, 3, 5, 7, 30, 41, 136, 5000, 99_999):
        axis = page.run(f"countAxis({most})")
        assert most <= axis["most"] <= most * 1.5
        assert axis["most"] % axis["steps"] == 0


def opened(page: Page) -> str:
    page.run("document.querySelectorAll('#list details').forEach((one) => { one.open = true; })")
    page.settled()
    assert page.errors == []
    return str(page.run("document.body.textContent"))


@needs_chromium
def test_a_compiled_program_before_and_after(lm: Any, tmp_path: Path, browser: Browser) -> None:
    with dspy.context(lm=lm):
        compiled = compile_program(
            program(), devset(), contains_word, threads=1, run=tmp_path / "run", progress=False
        )
    text = opened(browser.open(write_report(tmp_path / "run")))
    assert f"{compiled.before.mean:.3f}" in text
    assert f"{compiled.after.mean:.3f}" in text if compiled.after else "There is no new program" in text
    assert f"{compiled.before.n} of {compiled.before.n} questions" in text


@needs_chromium
def test_what_was_learned_is_shown_as_text(lm: Any, tmp_path: Path, browser: Browser) -> None:
    """Instructions and demonstrations of the new program; they hold evidence, and so whatever documents say."""
    with dspy.context(lm=lm):
        compiled = compile_program(
            program(), devset(), contains_word, threads=1, run=tmp_path / "run", progress=False
        )
    assert compiled.candidate is not None
    page = browser.open(write_report(tmp_path / "run"))
    page.run("document.querySelectorAll('#learned details').forEach((one) => { one.open = true; })")
    page.settled()
    text = page.run("document.getElementById('learned').textContent")
    for _, predictor in compiled.candidate.named_predictors():
        assert predictor.signature.instructions in text
        assert all(demo["question"] in text for demo in predictor.demos)
    assert "<script>window.hacked = 1" in text
    assert page.run("typeof window.hacked") == "undefined"
    assert page.errors == []


@needs_chromium
def test_prompts_and_thresholds_in_turns_have_sliders(lm: Any, tmp_path: Path, browser: Browser) -> None:
    with dspy.context(lm=lm):
        compile_program(
            program(),
            devset(),
            contains_word,
            threads=1,
            run=tmp_path / "run",
            progress=False,
            alternate=True,
        )
    page = browser.open(write_report(tmp_path / "run"))
    assert page.run("document.querySelectorAll('input[type=range]').length") == 2
    assert "Before and after" in opened(page)
    assert page.run("[cragReport.data.summary.before.upper, cragReport.data.summary.before.lower]") == [
        0.5,
        -0.5,
    ]


@needs_chromium
def test_an_evaluation(lm: Any, tmp_path: Path, browser: Browser) -> None:
    with dspy.context(lm=lm):
        evaluate(
            program(), devset(9), contains_word, run=tmp_path / "run", threads=1, traces=True, progress=False
        )
    page = browser.open(write_report(tmp_path / "run"))
    assert page.run("document.querySelectorAll('input[type=range]').length") == 0
    assert "9 of 9 questions" in opened(page)


@needs_chromium
def test_a_comparison(lm: Any, tmp_path: Path, browser: Browser) -> None:
    systems = {"plain <b>RAG</b>": RAG(find, k=2), "CRAG": program()}
    with dspy.context(lm=lm):
        compared = compare(systems, devset(9), contains_word, run=tmp_path / "run", threads=1, progress=False)
    text = opened(browser.open(write_report(tmp_path / "run")))
    assert "plain <b>RAG</b>" in text
    assert all(f"{system.quality.mean:.3f}" in text for system in compared.systems)


@needs_chromium
def test_questions_that_failed_are_counted_on_every_page(lm: Any, tmp_path: Path, browser: Browser) -> None:
    def told(folder: str) -> str:
        page = browser.open(write_report(tmp_path / folder))
        found = str(page.run("document.getElementById('failures')?.textContent ?? ''"))
        assert page.errors == []
        return found

    def run() -> None:
        with dspy.context(lm=lm):
            options: dict[str, Any] = {"threads": 1, "progress": False}
            evaluate(program(), devset(9), contains_word, run=tmp_path / "evaluated", **options)
            systems = {"RAG": RAG(find, k=2), "constructor": program()}
            compare(systems, devset(9), contains_word, run=tmp_path / "compared", **options)
            compile_program(program(), devset(), contains_word, run=tmp_path / "compiled", **options)

    engine, down = lm.engine, ConnectionError("<b>unplugged</b>")
    answer = engine.script["answer"]
    engine.script["answer"] = lambda request: (
        answer(request) if "town 4 " not in request.text else _raise(down)
    )
    engine.raises = {0: down}
    run()
    assert "Failed: answer 2. These questions count as not right" in told("evaluated")
    assert "<b>unplugged</b>" in told("evaluated")
    assert "Failed: RAG 1, constructor 1." in told("compared")
    page = browser.open(tmp_path / "compared" / "report.html")
    rows = page.run(
        "[...document.querySelectorAll('#systems tbody tr')].map((row) => row.lastChild.textContent)"
    )
    assert rows == ["1", "1"]
    engine.raises, engine.script["answer"] = {}, answer
    run()
    assert (told("evaluated"), told("compared"), told("compiled")) == ("", "", "")


def _raise(error: Exception) -> Any:
    raise error


@needs_chromium
def test_a_search_whose_runs_failed_judges_nothing(searched: Any, lm: Any, browser: Browser) -> None:
    lm.engine.raises = {3: ConnectionError("unplugged")}
    page = browser.open(write_report(searched()))
    assert "runs failed, so nothing is judged yet" in page.run("document.getElementById('kept').textContent")


@needs_chromium
def test_a_search_that_was_interrupted_is_shown_as_far_as_it_came(searched: Any, browser: Browser) -> None:
    folder = searched()
    (folder / "metrics.json").unlink()
    lines = (folder / "results.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "results.jsonl").write_bytes(b"".join(lines[:20]))
    page = browser.open(write_report(folder))
    missing = page.run("cragReport.totals(0.95, -0.95, 'max').missing")
    page.run("cragReport.set({ upper: 0.95, lower: -0.95 })")
    assert missing == 0 or f"{missing} questions have no run" in opened(page)
    assert page.errors == []


# The file


def test_it_opens_at_the_thresholds_that_are_kept_and_an_older_run_at_its_optimum(searched: Any) -> None:
    folder = searched()
    summary = json.loads((folder / "metrics.json").read_text())
    kept = {name: summary["kept"][name] for name in ("upper", "lower")}
    assert report_data(folder)["thresholds"] == kept
    for name in ("kept", "improved", "verdict", "note"):
        del summary[name]
    (folder / "metrics.json").write_text(json.dumps(summary))
    assert report_data(folder)["thresholds"] == {name: summary[name] for name in ("upper", "lower")}


@needs_chromium
def test_what_is_kept_and_what_would_have_been_found_is_shown(
    searched: Any, lm: Any, tmp_path: Path, browser: Browser
) -> None:
    folder = searched()
    found = json.loads((folder / "metrics.json").read_text())
    text = browser.open(write_report(folder)).run("document.getElementById('kept').textContent")
    assert ("Not better beyond noise" in text) == (not found["improved"])
    with dspy.context(lm=lm):
        systems = {"RAG": RAG(find, k=2), "CRAG": program(), "again": program()}
        compare(systems, devset(9), contains_word, run=tmp_path / "run", threads=1, progress=False)
    beside = browser.open(write_report(tmp_path / "run")).run("document.getElementById('beside').textContent")
    assert "Intervals are over 9 questions, each on its own" in beside
    assert "p is raised for 2 comparisons with one system (Holm)" in beside


def test_it_is_one_file_that_loads_nothing(searched: Any) -> None:
    text = write_report(searched()).read_text(encoding="utf-8")
    page = re.sub(r'<script type="application/json".*?</script>', "", text, flags=re.DOTALL)
    assert not re.search(r"(?:src|href)\s*=\s*[\"'](?!data:)", page)
    assert "@import" not in page
    assert "url(" not in page
    assert not re.search(r"\b(?:fetch|XMLHttpRequest|innerHTML|eval|import)\s*\(|\.innerHTML", page)
    assert "default-src 'none'" in html.unescape(page)


def test_passages_are_in_it_once(searched: Any) -> None:
    folder = searched()
    text = write_report(folder).read_text(encoding="utf-8")
    assert text.count("Town 19 is old.") < len(
        re.findall(r"Town 19 is old\.", (folder / "results.jsonl").read_text())
    )
    data = report_data(folder)
    assert len({json.dumps(passage) for passage in data["passages"]}) == len(data["passages"])


def test_no_key_is_in_it(searched: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", "tvly-planted-0123456789")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
    assert "planted" not in write_report(searched()).read_text(encoding="utf-8")


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters()),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=12,
    )
)
def test_embedded_data_cannot_leave_its_element(data: Any) -> None:
    text = embedded(data)
    assert json.loads(text) == data
    assert not set("<>&\u2028\u2029") & set(text)
    text.encode("utf-8")


def test_a_folder_that_is_no_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no config\.json: it is not the folder of a run"):
        write_report(tmp_path)
    (tmp_path / "config.json").write_text('{"format": 1, "kind": "shopping"}')
    with pytest.raises(ConfigError, match="a run of kind 'shopping'"):
        write_report(tmp_path)
