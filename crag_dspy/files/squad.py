"""SQuAD JSON (XQuAD and CMRC 2018 have its layout too): articles, their paragraphs, and the questions on each."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crag_dspy.errors import ConfigError
from crag_dspy.passages import Passage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph as the file has it.

    Attributes:
        id: its own where the file gives one, else "TITLE#NUMBER": what `relevant_ids` name.
        article: number of its article in the file, from 0.
        title: of the article; "" where it has none.
        text: unchanged, because answers name places in it.
        questions: rows as published, with `question`, `answers` (each with `text` and `answer_start`) and `id`.
    """

    id: str
    article: int
    title: str
    text: str
    questions: tuple[Mapping[str, Any], ...]

    @property
    def document(self) -> str:
        """What may not be in two splits: the article; of a set without titles, the paragraph."""
        return self.title or self.id

    def passage(self) -> Passage:
        """What an index holds of it."""
        return Passage(self.text.strip(), self.id, self.title, metadata={"document": self.document})

    def asked(self) -> Iterator[Mapping[str, Any]]:
        """The questions that ask something. CMRC 2018 holds empty ones: those are named in the log."""
        for row in self.questions:
            if str(row.get("question") or "").strip():
                yield row
            else:
                logger.warning(
                    "paragraph %s: question %s is empty, and is left out", self.id, row.get("id", "")
                )


def read_squad(path: Path | str) -> list[Paragraph]:
    """The paragraphs of a file in its order; ConfigError naming the file and the field that is wrong."""
    file = Path(path)
    try:
        data = json.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file.name} is not UTF-8 at byte {error.start}: save it as UTF-8") from error
    except json.JSONDecodeError as error:
        raise ConfigError(f"{file.name}: not JSON: {error}") from error
    return list(paragraphs_of(data, file.name))


def paragraphs_of(data: Any, name: str) -> Iterator[Paragraph]:
    """The same of a file that is in memory; errors call it `name`."""
    articles = data.get("data") if isinstance(data, Mapping) else None
    if not isinstance(articles, list):
        raise ConfigError(f"{name}: SQuAD JSON has a list `data` of articles")
    for number, article in enumerate(articles):
        paragraphs = article.get("paragraphs") if isinstance(article, Mapping) else None
        if not isinstance(paragraphs, list):
            raise ConfigError(f"{name}: data[{number}] has no list `paragraphs`")
        title = str(article.get("title") or "")
        for place, paragraph in enumerate(paragraphs):
            where = f"{name}: data[{number}].paragraphs[{place}]"
            text = paragraph.get("context") if isinstance(paragraph, Mapping) else None
            if not isinstance(text, str) or not text.strip():
                raise ConfigError(f"{where}.context must be a non-empty text, got {text!r:.80}")
            rows = paragraph.get("qas", [])
            if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
                raise ConfigError(f"{where}.qas must be a list of objects, got {rows!r:.80}")
            identity = str(paragraph.get("id") or f"{title or number}#{place}")
            yield Paragraph(identity, number, title, text, tuple(rows))


def by_article(paragraphs: Iterable[Paragraph]) -> list[list[Paragraph]]:
    """The paragraphs of each article together, in the order of the file."""
    return [list(found) for _, found in groupby(paragraphs, key=lambda paragraph: paragraph.article)]
