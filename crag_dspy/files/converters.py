"""Documents that are no text (web pages, PDF, Word) as Markdown, so that headings, tables and lists stay what they are.

Needs the extra `files`: markdownify (on Beautiful Soup and lxml), mammoth and pypdf.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from crag_dspy.errors import ConfigError
from crag_dspy.files.encodings import decoded
from crag_dspy.text.scripts import UNSPACED

if TYPE_CHECKING:
    from collections.abc import Callable

# No words for a reader. Menus too; what else stands around a text may hold an address or an hour.
_SILENT = ("script", "style", "template", "noscript", "nav", "svg", "iframe")
_BLANK_LINES = re.compile(r"\n(?:[ \t]*\n){2,}")
_TRAILING = re.compile(r"[ \t]+$", re.M)
_DECLARED = {"gb2312": "gb18030", "gbk": "gb18030", "iso-8859-1": "cp1252", "latin1": "cp1252"}
_ENDS = re.compile(r"[.!?:;。！？：；…][\"'”’)\]」』）]*$")
_UNSPACED = re.compile(f"[{UNSPACED}，。、；：！？（）《》“”]")
_BULLET = re.compile(r"[-*•·▪◦]\s|\(?\d{1,3}[.)]\s")
FULL = 0.8  # of the page's usual line: a shorter one ends its paragraph


class Converted(NamedTuple):
    """A document as Markdown, with its title where it names one, and the encoding that it was read in."""

    text: str
    title: str = ""
    encoding: str = "utf-8"


def converted(raw: bytes, suffix: str) -> Converted:
    """The text of a file of one of the kinds in `CONVERTERS`.

    Raises:
        ConfigError: it cannot be read, it holds no text, or what reads it is not installed.
    """
    try:
        found = CONVERTERS[suffix](raw)
    except ConfigError:
        raise
    except ModuleNotFoundError as error:
        raise ConfigError(f'{suffix} files need {error.name}: pip install ".[files]"') from error
    except RecursionError as error:
        raise ConfigError("nested too deeply to be read") from error
    except Exception as error:
        raise ConfigError(f"cannot be read as {suffix}: {type(error).__name__}: {error}") from error
    if not found.text.strip():
        raise ConfigError("holds no text" + (": scanned pages need OCR first" if suffix == ".pdf" else ""))
    return found


def _html(raw: bytes) -> Converted:
    from bs4.dammit import EncodingDetector

    declared = (EncodingDetector.find_declared_encoding(raw[:4096], is_html=True) or "").lower()
    try:
        encoding = _DECLARED.get(declared, declared)
        text = raw.decode(encoding)
    except (LookupError, UnicodeDecodeError):  # nothing is declared, or something else
        text, encoding = decoded(raw)
    return _from_html(text)._replace(encoding=encoding)


def _from_html(text: str) -> Converted:
    import lxml  # noqa: F401 - by its name below: its absence is to be said as that of the others
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    page: Any = BeautifulSoup(text, "lxml")
    for silent in page(_SILENT):
        silent.decompose()
    title = page.title.get_text(" ", strip=True) if page.title else ""
    mains = page("main")
    body = mains[0] if len(mains) == 1 else page.body or page
    converter = MarkdownConverter(
        heading_style="ATX",
        bullets="-",
        strip=["a", "img", "title"],
        table_infer_header=True,
        escape_asterisks=False,
        escape_underscores=False,
        escape_misc=False,
    )
    markdown = str(converter.convert_soup(body))
    return Converted(_BLANK_LINES.sub("\n\n", _TRAILING.sub("", markdown)).strip() + "\n", title)


def _docx(raw: bytes) -> Converted:
    import mammoth

    found = mammoth.convert_to_html(
        io.BytesIO(raw),
        style_map="p[style-name='Title'] => h1:fresh",
        convert_image=mammoth.images.img_element(lambda image: {}),
    )
    return _from_html(found.value)


def _pdf(raw: bytes) -> Converted:
    import pypdf

    reader = pypdf.PdfReader(io.BytesIO(raw))
    if reader.is_encrypted and not reader.decrypt(""):
        raise ConfigError("is encrypted: save it without a password first")
    title = (reader.metadata and reader.metadata.title) or ""
    pages = [_paragraphs(page.extract_text()) for page in reader.pages]
    return Converted("\n\n".join(filter(None, pages)) + "\n", str(title).strip())


def _paragraphs(page: str) -> str:
    """The lines of a page put together again: a PDF knows where a line ends, and not why."""
    lines = [" ".join(line.split()) for line in page.splitlines()]
    lengths = sorted(len(line) for line in lines if line)
    usual = lengths[len(lengths) * 9 // 10] if lengths else 0
    made: list[str] = []
    goes_on = False
    for line in lines:
        if not line:
            goes_on = False
        elif not goes_on or _BULLET.match(line):
            made.append(line)
        elif made[-1].endswith("-") and line[0].islower():
            made[-1] = made[-1][:-1] + line
        else:
            unspaced = _UNSPACED.match(made[-1][-1]) and _UNSPACED.match(line[0])
            made[-1] += ("" if unspaced else " ") + line
        # A full line goes on, unless a sentence ends with it and the next one is a paragraph's: that cannot be seen.
        goes_on = (
            bool(line) and (len(line) >= FULL * usual or not _ENDS.search(line)) and len(line) >= usual / 2
        )
    return "\n\n".join(made)


CONVERTERS: dict[str, Callable[[bytes], Converted]] = {
    ".html": _html,
    ".htm": _html,
    ".pdf": _pdf,
    ".docx": _docx,
}
