"""From files to evidence, with the shipped grader: documents are indexed, found, graded, and keep their structure."""

from __future__ import annotations

import csv

import pytest
from document_files import docx_of

from crag_dspy import CorrectiveRetriever, T5Grader
from crag_dspy.passages import Strip
from crag_dspy.refine import shown_of, strips_of
from crag_dspy.retrievers import LocalIndex

PORTS = """---
title: Server guide
---

Install
=======

## Linux

Unpack the archive. The admin port is 8080. Logs are kept in /var/log for a week.

## Windows

Run the installer. The admin port is 8081. Logs are kept on drive C for a week.

### Services

The services are:

- Web
  - starts by itself
- Mail
  - must be started by hand
"""
CHINESE = """# 服务器指南

## Linux

解压文件。管理端口是8080。日志保存一周。

## Windows

运行安装程序。管理端口是8081。日志保存一周。

| 套餐 | 每月价格 | 用户数 |
|---|---|---|
| 免费版 | 0元 | 1 |
| 专业版 | 49元 | 50 |
| 企业版 | 99元 | 500 |
"""
PAGE = """<html><head><title>Plans</title></head><body><h1>Plans</h1><table><tr><th>Plan</th><th>Price (euro)</th>
<th>Seats</th></tr><tr><td>Free</td><td>0</td><td>1</td></tr><tr><td>Pro</td><td>49</td><td>50</td></tr>
<tr><td>Max</td><td>99</td><td>500</td></tr></table><p>All plans are paid by the month.</p></body></html>"""


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> LocalIndex:
    for package in ("markdownify", "mammoth", "docx"):
        pytest.importorskip(package, reason="needs the extras `files` and `dev`")
    folder = tmp_path_factory.mktemp("documents")
    (folder / "ports.md").write_text(PORTS, encoding="utf-8")
    (folder / "指南.md").write_bytes(CHINESE.encode("gb18030"))
    (folder / "plans.html").write_text(PAGE, encoding="utf-8")
    (folder / "letter.docx").write_bytes(docx_of())
    with (folder / "stations.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["Station", "Opened", "Platforms"])
        rows.writerows([f"Station {n}", 1850 + n % 150, n % 9 + 1] for n in range(80))
    return LocalIndex.build(folder.with_name("index"), folder, embedder="mini", chunk_words=60)


@pytest.fixture(scope="module")
def grader() -> T5Grader:
    return T5Grader.from_pretrained("mini")


def best(index: LocalIndex, grader: T5Grader, question: str, grade_by: str) -> Strip:
    found = CorrectiveRetriever(index, grader, grade_by=grade_by, k=4)(question)
    graded = [*found.trace.kept, *found.trace.dropped]
    assert not [strip.text for strip in graded if strip.text.startswith(("#", "---", "==="))]
    return max(graded, key=lambda strip: strip.score or -1.0)


@pytest.mark.parametrize("grade_by", ["once", "passage"])
@pytest.mark.parametrize(
    ("question", "shown"),
    [
        ("Which admin port does Windows use?", "Windows: The admin port is 8081."),
        ("Which admin port does Linux use?", "Server guide > Install > Linux: The admin port is 8080."),
        ("Windows用哪个管理端口？", "服务器指南 > Windows: 管理端口是8081。"),
        ("How much does the Pro plan cost?", "Plan | Price (euro) | Seats |\n| --- | --- | --- |\n| Pro | 49 | 50 |"),
        ("专业版每月多少钱？", "| 套餐 | 每月价格 | 用户数 |\n|---|---|---|\n| 专业版 | 49元 | 50 |"),
        ("When was Station 77 opened?", "| Station | Opened | Platforms |\n|---|---|---|\n| Station 77 | 1927 | 6 |"),
        ("How is the mail service started?", "The services are:\nMail\n- must be started by hand"),
    ],
)  # fmt: skip
def test_the_best_strip_is_the_right_one_and_says_where_it_stands(
    index: LocalIndex, grader: T5Grader, question: str, shown: str, grade_by: str
) -> None:
    assert shown in shown_of(best(index, grader, question, grade_by))


def test_every_chunk_of_a_long_table_has_its_header(index: LocalIndex) -> None:
    chunks = [passage for passage in index.passages() if passage.metadata.get("document") == "stations.csv"]
    assert len(chunks) > 5
    rows = [strip for chunk in chunks for strip in strips_of([chunk], "internal")]
    assert len(rows) == 80
    assert all("| Station | Opened | Platforms |" in shown_of(row) for row in rows)
