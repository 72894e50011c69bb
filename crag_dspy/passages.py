"""What a retriever returns, and the pieces it is cut into.

`as_passages` reads whatever the retrievers people already have return, so that nobody has to convert anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from crag_dspy.errors import cause_of
from crag_dspy.state.plain import Plain, plain

if TYPE_CHECKING:
    from crag_dspy.read_once.vectors import PassageVectors

Origin = Literal["internal", "web"]

# In the order in which they are looked for: ours and dicts, DSPy's, LangChain's, and what vector stores call it.
TEXT_FIELDS = ("text", "long_text", "page_content", "content", "passage", "body")
SCORE_FIELDS = ("score", "probability", "prob", "similarity", "relevance_score")


_FIELD_FIXES = {
    "text": "pass the text itself",
    "id": "write a number as str(number), and leave out what is not known",
    "title": "leave it out when there is none",
    "url": "leave it out when there is none, and pass one address",
}
MOST_ITEMS = 10_000  # of one result: more are not read, so that one without an end has one


@dataclass(frozen=True, slots=True)
class Passage(Plain):
    """A text that a retriever or a web search returned.

    `score` is the RETRIEVER's own, on the retriever's scale, and None when it gave none: it is never relevance
    (relevance is what the grader says), and a passage without a score is not a passage with score 0.
    """

    SHOWN: ClassVar[str] = "id title url score text"

    text: str
    id: str = ""
    title: str = ""
    url: str = ""
    score: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    # What a grader that reads once kept of it, where the index has it. No part of what a passage is.
    vectors: PassageVectors | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, fix in _FIELD_FIXES.items():
            value = getattr(self, name)
            if not isinstance(value, str):
                raise TypeError(f"Passage.{name} must be a str, got {type(value).__name__}: {fix}")
        if not isinstance(self.metadata, Mapping):
            raise TypeError(f"Passage.metadata must be a mapping, got {type(self.metadata).__name__}")
        if self.score is not None and not hasattr(self.score, "__float__"):
            raise TypeError(f"Passage.score must be a number or None, got {type(self.score).__name__}")

    def to_json(self) -> dict[str, Any]:
        """Plain data: `id, title, url, score, text`, and `metadata` when there is any."""
        shown = Plain.to_json(self)
        return {**shown, "metadata": plain(self.metadata)} if self.metadata else shown

    toDict = to_json  # noqa: N815 - what `dspy.Prediction.toDict` asks of what it holds


@dataclass(frozen=True, slots=True)
class Strip(Plain):
    """A piece of a passage: `passage.text[start:end] == text`, always.

    `score` is the grader's, in [-1, 1], or None when the grader could not judge it.
    """

    SHOWN: ClassVar[str] = "text start end score origin"

    text: str
    start: int
    end: int
    score: float | None
    passage: Passage
    origin: Origin

    def __post_init__(self) -> None:
        if self.passage.text[self.start : self.end] != self.text:
            raise ValueError(f"Strip[{self.start}:{self.end}] does not cut its own text out of its passage")

    def to_json(self) -> dict[str, Any]:
        """Plain data, with the source named rather than repeated whole."""
        source = self.passage
        return {**Plain.to_json(self), "id": source.id, "title": source.title, "url": source.url}

    toDict = to_json  # noqa: N815


def as_passages(result: Any, left_out: Callable[[str], None] | None = None) -> list[Passage]:
    """Read what a retriever returned as a list of `Passage`, in its order, without empty texts.

    Args:
        result: None, one item or an iterable of items, a `dspy.Prediction` or any object with `.passages`, where an
            item is a `Passage`, a str, a mapping, an object with one of `TEXT_FIELDS` (dspy, LangChain), an object with
            `.node` (LlamaIndex), or a pair (item, score).
        left_out: told of each item that cannot be read, which then costs only itself.

    Raises:
        TypeError: naming the type of what cannot be read; with `left_out`, where that is everything.
    """
    if result is None:
        return []
    if isinstance(result, (str, Passage, Mapping)):
        items: Iterable[Any] = [result]
    elif hasattr(result, "passages"):
        items = _with_scores(result)
    elif isinstance(result, Iterable) and not hasattr(
        result, "items"
    ):  # a dspy.Example iterates over its names
        items = result
    else:
        items = [result]
    passages = map(_as_passage, items) if left_out is None else _readable(items, left_out)
    return [passage for passage in passages if passage.text.strip()]


def _readable(items: Iterable[Any], left_out: Callable[[str], None]) -> list[Passage]:
    """What can be read of the items, and of what gives them. Raises the first error when that is nothing."""
    passages: list[Passage] = []
    errors: list[Exception] = []
    given = iter(items)
    for _ in range(MOST_ITEMS):
        try:
            passages.append(_as_passage(next(given)))
        except StopIteration:
            break
        except Exception as error:  # noqa: BLE001 - whatever somebody's objects raise, the others count
            errors.append(error)
    if errors and not passages:
        raise errors[0]
    if errors:
        total = len(errors) + len(passages)
        left_out(f"{len(errors)} of {total} results could not be read, left out: {cause_of(errors[0])}")
    return passages


def _with_scores(result: Any) -> list[Any]:
    """`dspy.Embeddings` and `dspy.Retrieve` give passages, indices and scores as parallel lists."""
    passages = list(result.passages or [])
    scores, indices = _parallel(result, "scores"), _parallel(result, "indices")
    if len(indices) == len(passages):
        # Small IVF indexes pad with index -1 and repeat a passage in its place.
        keep = [i for i, index in enumerate(indices) if int(index) >= 0]
    else:
        keep = list(range(len(passages)))
    if len(scores) != len(passages):
        return [passages[i] for i in keep]
    return [(passages[i], scores[i]) for i in keep]


def _parallel(result: Any, name: str) -> list[Any]:
    values = getattr(result, name, None)
    return list(values) if isinstance(values, Iterable) and not isinstance(values, str) else []


def _as_passage(item: Any) -> Passage:
    if isinstance(item, Passage):
        return item
    if isinstance(item, str):
        return Passage(item)
    if isinstance(item, tuple) and len(item) == 2:
        first = _as_passage(item[0])
        return Passage(first.text, first.id, first.title, first.url, _number(item[1]), first.metadata)
    if hasattr(item, "node") and hasattr(item.node, "get_content"):  # LlamaIndex NodeWithScore
        node = item.node
        return _build(
            {"text": node.get_content(), "id": getattr(node, "node_id", ""), "score": item.score},
            dict(node.metadata or {}),
        )
    fields = item if isinstance(item, Mapping) else _attributes(item)
    text = next((fields[name] for name in TEXT_FIELDS if isinstance(fields.get(name), str)), None)
    if text is None:
        raise TypeError(
            f"cannot read a passage from {type(item).__name__}: expected a str, a Passage, or one of the fields "
            f"{', '.join(TEXT_FIELDS)}"
        )
    extra = fields.get("metadata")
    return _build({**fields, "text": text}, dict(extra) if isinstance(extra, Mapping) else {})


def _build(fields: Mapping[str, Any], metadata: dict[str, Any]) -> Passage:
    def first(*names: str) -> str:
        found = (source.get(name) for name in names for source in (fields, metadata))
        return next((_name(value) for value in found if _name(value)), "")

    score = next((fields[name] for name in SCORE_FIELDS if fields.get(name) is not None), None)
    return Passage(
        text=fields["text"],
        id=first("id", "pid", "doc_id", "_id"),
        title=first("title"),
        url=first("url", "source", "link", "href"),
        score=_number(score),
        metadata=metadata,
    )


def _name(value: Any) -> str:
    """An id, a title or an address: a text, or what has one, such as a number, a UUID or a path; of a list, nothing."""
    return (
        ""
        if value is None
        or (isinstance(value, (bool, bytes, Mapping, Iterable)) and not isinstance(value, str))
        else str(value)
    )


def _attributes(item: Any) -> dict[str, Any]:
    names = (*TEXT_FIELDS, *SCORE_FIELDS, "id", "pid", "title", "url", "metadata")
    return {name: getattr(item, name) for name in names if hasattr(item, name)}


def _number(value: Any) -> float | None:
    if value is None or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
