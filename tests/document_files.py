"""Small files of the kinds that are converted, made here."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any


def docx_of() -> bytes:
    """A Word file with headings, a table and a list, in English and Chinese."""
    import docx

    document: Any = docx.Document()
    document.add_heading("Guide", 0)
    document.add_heading("Windows", 2)
    document.add_paragraph("The admin port is 8081.")
    table = document.add_table(rows=0, cols=2)
    for row in (("Plan", "Price"), ("Free", "0"), ("Pro", "49")):
        for cell, text in zip(table.add_row().cells, row, strict=True):
            cell.text = text
    document.add_heading("安装", 2)
    document.add_paragraph("步骤如下：")
    document.add_paragraph("下载", style="List Bullet")
    document.add_paragraph("运行", style="List Bullet")
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def pdf_of(pages: Sequence[Sequence[str]], title: str = "") -> bytes:
    """A PDF file whose pages have these lines (ASCII)."""
    count = len(pages)
    kids = " ".join(f"{3 + 2 * number} 0 R" for number in range(count))
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", f"<< /Type /Pages /Kids [{kids}] /Count {count} >>"]
    for number, lines in enumerate(pages):
        text = " ".join(f"({_escaped(line)}) Tj T*" for line in lines)
        stream = f"BT /F1 10 Tf 40 800 Td 12 TL {text} ET"
        font = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {4 + 2 * number} 0 R "
            f"/Resources << /Font << /F1 {font} >> >> >>"
        )
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    objects.append(f"<< /Title ({_escaped(title)}) >>")
    body, places = "%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        places.append(len(body))
        body += f"{number} 0 obj\n{each}\nendobj\n"
    entries = "".join(f"{place:010d} 00000 n \n" for place in places)
    size = len(objects) + 1
    trailer = f"<< /Size {size} /Root 1 0 R /Info {len(objects)} 0 R >>"
    return (
        f"{body}xref\n0 {size}\n0000000000 65535 f \n{entries}trailer\n{trailer}\nstartxref\n{len(body)}\n%%EOF\n"
    ).encode("latin-1")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
