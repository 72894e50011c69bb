"""Web pages, Word and PDF files keep their headings, tables and lists."""

from __future__ import annotations

import io
import sys

import pytest
from document_files import docx_of, pdf_of
from linear_time import assert_linear, repeated

from crag_dspy.errors import ConfigError
from crag_dspy.files.converters import converted
from crag_dspy.passages import Passage
from crag_dspy.refine import shown_of, strips_of

pytest.importorskip("markdownify", reason="needs the `files` extra")
pytest.importorskip("mammoth", reason="needs the `files` extra")
pytest.importorskip("pypdf", reason="needs the `files` extra")

PAGE = """<!doctype html><html><head><meta charset="{charset}"><title>Guide &amp; ports</title>
<style>p {{ color: red }}</style><script>alert("Run.")</script></head><body><nav><a href="/">Home</a></nav>
<h1>Install</h1><h2>Windows</h2><p>The admin port is <b>8081</b>. See <a href="/x">there</a>.</p>
<table><tr><th>Plan</th><th>Price</th></tr><tr><td>Free</td><td>0</td></tr><tr><td>Pro</td><td>49</td></tr></table>
<p>The steps are:</p><ol><li>Download<ul><li>the file</li></ul></li><li>Run</li></ol>
<h2>安装</h2><p>管理端口是8081。</p><pre><code># no heading
make_all *fast*</code></pre></body></html>"""


def shown(text: str, title: str = "") -> list[str]:
    return [shown_of(strip) for strip in strips_of([Passage(text, title=title)], "internal")]


@pytest.mark.parametrize("charset", ["utf-8", "gb2312", "no-such-charset"])
def test_a_web_page_keeps_its_structure(charset: str) -> None:
    raw = PAGE.format(charset=charset).encode("gb18030" if charset == "gb2312" else "utf-8")
    found = converted(raw, ".html")
    assert found.title == "Guide & ports"
    assert found.encoding == ("gb18030" if charset == "gb2312" else "utf-8")
    header = "| Plan | Price |\n| --- | --- |"
    assert shown(found.text) == [
        "Install > Windows: The admin port is **8081**.",
        "Install > Windows: See there.",
        f"Install > Windows: {header}\n| Free | 0 |",
        f"Install > Windows: {header}\n| Pro | 49 |",
        "Install > Windows: The steps are:",
        "Install > Windows: The steps are:\n1. Download",
        "Install > Windows: The steps are:\nDownload\n- the file",
        "Install > Windows: The steps are:\n2. Run",
        "Install > 安装: 管理端口是8081。",
        "Install > 安装: ```\n# no heading\nmake_all *fast*\n```",
    ]


def test_a_table_without_a_header_row_takes_its_first_row() -> None:
    page = b"<table><tr><td>Plan</td><td>Price</td></tr><tr><td>Pro</td><td>49</td></tr></table>"
    assert converted(page, ".htm").text == "| Plan | Price |\n| --- | --- |\n| Pro | 49 |\n"


def test_of_a_page_with_a_main_part_that_is_read() -> None:
    page = b"<body><aside>Buy now.</aside><main><p>It is open.</p></main><footer>Terms.</footer></body>"
    assert converted(page, ".html").text == "It is open.\n"


def test_a_word_file_keeps_its_structure() -> None:
    found = converted(docx_of(), ".docx")
    assert shown(found.text) == [
        "Guide > Windows: The admin port is 8081.",
        "Guide > Windows: | Plan | Price |\n| --- | --- |\n| Free | 0 |",
        "Guide > Windows: | Plan | Price |\n| --- | --- |\n| Pro | 49 |",
        "Guide > 安装: 步骤如下：",
        "Guide > 安装: 步骤如下：\n- 下载",
        "Guide > 安装: 步骤如下：\n- 运行",
    ]


def test_the_lines_of_a_pdf_are_sentences_again() -> None:
    pages = [
        [
            "The bridge was opened for trains in the year 1931, and was wi-",
            "dened twice, in 1950 and in 1972, when a second track was laid.",
            "It is open.",
            "",
            "The toll is 5 euro.",
        ],
        ["Opening hours"],
    ]
    found = converted(pdf_of(pages, "The bridge"), ".pdf")
    assert found.title == "The bridge"
    assert found.text == (
        "The bridge was opened for trains in the year 1931, and was widened twice, in 1950 and in 1972, when a "
        "second track was laid. It is open.\n\nThe toll is 5 euro.\n\nOpening hours\n"
    )


@pytest.mark.parametrize(
    ("raw", "suffix", "message"),
    [
        (b"%PDF-1.4\nnothing", ".pdf", r"cannot be read as \.pdf"),
        (b"PK\x03\x04 cut", ".docx", r"cannot be read as \.docx"),
        (pdf_of([[]]), ".pdf", "holds no text: scanned pages need OCR first"),
        (b"<script>only()</script>", ".html", "holds no text"),
        (b"<div>" * 100_000 + b"deep", ".html", "nested too deeply"),
    ],
)
def test_what_cannot_be_read_says_why(raw: bytes, suffix: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        converted(raw, suffix)


@pytest.mark.parametrize(
    "unit", ["<!--", "<a b='", '<a href="x', "<?", "<![CDATA[", "<li>a", "<td>a", "<p>a ", "&", "<"]
)
def test_a_web_page_takes_linear_time(unit: str) -> None:
    assert_linear(
        lambda text: converted(text.encode(), ".html"), lambda n: "<p>Text.</p>" + repeated(unit)(n), n=4000
    )


def test_a_page_that_says_it_is_xml_is_read() -> None:
    page = '<?xml version="1.0" encoding="utf-8"?><html><body><h1>桥</h1><p>It is open.</p></body></html>'
    assert converted(page.encode(), ".html").text == "# 桥\n\nIt is open.\n"


def test_an_encrypted_pdf_says_so() -> None:
    import pypdf

    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf_of([["Secret."]])))
    writer.encrypt("word", algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    with pytest.raises(ConfigError, match="is encrypted"):
        converted(out.getvalue(), ".pdf")


@pytest.mark.parametrize(
    ("suffix", "missing"),
    [
        (".html", "bs4.dammit"),
        (".html", "lxml"),
        (".htm", "markdownify"),
        (".docx", "mammoth"),
        (".pdf", "pypdf"),
    ],
)
def test_what_is_not_installed_says_how(suffix: str, missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ConfigError, match=rf'files need {missing}: pip install "\.\[files\]"'):
        converted(b"<p>Text.</p>", suffix)
