"""A Self-RAG checkpoint's own judgements: the probabilities of its reflection tokens (arXiv 2310.11511, section 3.3).

The language model is a `dspy.LM` of an OpenAI-compatible server that gives log-probabilities, such as vLLM with
selfrag/selfrag_llama2_7b. `model_type="text"` is the plain way:

    dspy.LM("openai/selfrag/selfrag_llama2_7b", model_type="text", api_base="http://localhost:8000/v1", api_key="none")

With `model_type="chat"` the server's chat template must give the message on as it is (`{{ messages[0].content }}`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crag_dspy.flow import Call
from crag_dspy.passages import Strip
from crag_dspy.self_rag.reflection import Reflection
from crag_dspy.signatures.answer import ChoiceAnswer, ClaimCheck
from crag_dspy.text.untrusted import as_asked, visible

RETRIEVE, NO_RETRIEVE = "[Retrieval]", "[No Retrieval]"
RELEVANT, IRRELEVANT = "[Relevant]", "[Irrelevant]"
SUPPORT = {"[Fully supported]": 1.0, "[Partially supported]": 0.5, "[No support / Contradictory]": 0.0}
UTILITY = {f"[Utility:{n}]": (n - 3) / 2 for n in range(1, 6)}
_OTHERS = ("[Continue to Use Evidence]", "<paragraph>", "</paragraph>")
_ALL = (RETRIEVE, NO_RETRIEVE, RELEVANT, IRRELEVANT, *SUPPORT, *UTILITY, *_OTHERS)
_TOKEN = re.compile("|".join(map(re.escape, _ALL)), re.I)
_END = re.compile(r"</s>|<\|endoftext\|>|<paragraph>|\n[ \t]*### Instruction", re.I)
# What gives the official prompt its structure: a page that writes its own "### Response:" would answer for the model.
_HEADING = re.compile(r"(?<!#)#{2,}(?=\s*(?:instruction|input|response)\b)", re.I)
_MARK = re.compile(r"<(?=/?s>|\|endoftext\|>)", re.I)

# What the checkpoints were asked in the official evaluation; a question of fact is asked as it is.
_INSTRUCTIONS: tuple[tuple[Any, str], ...] = (
    (
        ClaimCheck,
        "Is the following statement correct or not? Say true if it's correct; otherwise say false.",
    ),
    (
        ChoiceAnswer,
        "Given four answer candidates, A, B, C and D, choose the best answer choice.",
    ),
)

MAX_TOKENS = 100  # of a continuation, where the language model says nothing
TOP = 20  # the most that a server gives unless it is told otherwise


@dataclass(frozen=True, slots=True)
class Token:
    """A token of the reply: its text, its log-probability, and those of its likeliest rivals and itself."""

    text: str
    logprob: float | None
    top: Mapping[str, float]


def gives_tokens(lm: Any) -> bool:
    """Whether the name of a language model says that it is a Self-RAG checkpoint."""
    return re.search(r"self[-_ ]?rag", str(getattr(lm, "model", "")), re.I) is not None


def instruction_for(signature: Any) -> str:
    """The official instruction for a task; "" where the question is asked as it is."""
    for known, instruction in _INSTRUCTIONS:
        if signature is not None and signature.equals(known):
            return instruction
    return ""


def prompt_of(question: str, paragraph: str | None = None, *, instruction: str = "") -> str:
    """The official prompt, with a paragraph when there is one."""
    asked = f"{instruction}\n\n### Input:\n{_harmless(question)}" if instruction else _harmless(question)
    prompt = f"### Instruction:\n{asked}\n\n### Response:\n"
    return prompt if paragraph is None else f"{prompt}{RETRIEVE}<paragraph>{_harmless(paragraph)}</paragraph>"


def paragraph_of(strips: Sequence[Strip]) -> str:
    """Evidence as one paragraph: the text under its title for a passage alone, the strips in a row otherwise.

    Reflection tokens and the prompt's own marks that stand in the text are taken apart: no page judges itself.
    """
    if len(strips) == 1:
        title = strips[0].passage.title.strip()
        text = strips[0].text
        return _harmless(f"{title}\n{text}" if title else text)
    return _harmless(" ".join(strip.text for strip in strips))


def _harmless(text: str) -> str:
    """Text that can neither judge itself nor end its part of the prompt; what is harmless already stays as it is."""
    apart = _TOKEN.sub(lambda match: f"({match[0][1:-1]})", as_asked(visible(text)))
    return _MARK.sub("‹", _HEADING.sub("", apart))


def asking(lm: Any, prompt: str, *, most: int | None = None) -> Call:
    """The call that sends a prompt as it is and asks for probabilities."""
    given = lm.kwargs.get("max_tokens") or lm.kwargs.get("max_completion_tokens")
    options: dict[str, Any] = {"temperature": 0.0, "max_tokens": most or given or MAX_TOKENS}
    body: dict[str, Any] = {"skip_special_tokens": False}  # vLLM removes reflection tokens otherwise
    if getattr(lm, "model_type", "chat") == "text":
        options["logprobs"] = TOP
        body["prompt"] = prompt  # DSPy ends a text prompt with a line of its own, which this replaces
    else:
        options |= {"logprobs": True, "top_logprobs": TOP}
    return Call(lm, prompt=prompt, extra_body={**lm.kwargs.get("extra_body", {}), **body}, **options)


def tokens_of(output: Any) -> list[Token]:
    """The tokens of one output of `dspy.LM`, from completions (`top_logprobs`) or chat (`content`); [] without any."""
    logprobs = _field(output, "logprobs")
    content = _field(logprobs, "content")
    if content:
        return [
            _token(_field(entry, "token"), _field(entry, "logprob"), _rivals(_field(entry, "top_logprobs")))
            for entry in content
        ]
    texts = _field(logprobs, "tokens") or []
    own = _field(logprobs, "token_logprobs") or []
    top = _field(logprobs, "top_logprobs") or []
    return [
        _token(text, own[i] if i < len(own) else None, _rivals(top[i] if i < len(top) else None))
        for i, text in enumerate(texts)
    ]


def retrieval_share(output: Any) -> float | None:
    """The share of [Retrieval] against [No Retrieval] where a reply begins, in [0, 1]; None when neither is there."""
    shares = _shares(output, (RETRIEVE, NO_RETRIEVE))
    return None if shares is None else shares[RETRIEVE]


def reflection_of(paragraph: int, output: Any) -> Reflection:
    """A continuation with its judgements, from one output of the language model."""
    relevance = _shares(output, (RELEVANT, IRRELEVANT))
    support = _shares(output, tuple(SUPPORT))
    utility = _shares(output, tuple(UTILITY))
    return Reflection(
        paragraph=paragraph,
        answer=answer_of(output),
        relevance=relevance[RELEVANT] if relevance else None,
        support=sum(SUPPORT[name] * share for name, share in support.items()) if support else None,
        usefulness=sum(UTILITY[name] * share for name, share in utility.items()) if utility else None,
        supported=SUPPORT[max(support, key=lambda name: support[name])] > 0 if support else None,
        sequence=_sequence(tokens_of(output)),
    )


def answer_of(output: Any) -> str:
    """The text without tokens, up to where the model ends or begins a paragraph of its own invention."""
    text = _END.split(_text(output), maxsplit=1)[0]
    return " ".join(_TOKEN.sub(" ", text).split())


def _shares(output: Any, names: tuple[str, ...]) -> dict[str, float] | None:
    """The probabilities of some tokens where the first of them stands, made to add up to 1."""
    canonical = {name.lower(): name for name in names}
    tokens = tokens_of(output)
    place = next((token for token in tokens if _bare(token.text) in canonical), None)
    if place is None and tokens and any(_bare(text) in canonical for text in tokens[0].top):
        place = tokens[0]
    if place is not None:
        found = dict.fromkeys(names, 0.0)
        for text, logprob in {**place.top, **_itself(place)}.items():
            if _bare(text) in canonical:
                name = canonical[_bare(text)]
                found[name] = max(found[name], math.exp(min(0.0, logprob)))
        total = sum(found.values())
        if total > 0:
            return {name: value / total for name, value in found.items()}
    # No probability to be had: what the model wrote is what it judged.
    written = re.search("|".join(map(re.escape, names)), _text(output), re.I)
    return {name: float(name == canonical[written[0].lower()]) for name in names} if written else None


def _sequence(tokens: Iterable[Token]) -> float | None:
    known = [token.logprob for token in tokens if token.logprob is not None]
    return math.exp(min(0.0, sum(known) / len(known))) if known else None


def _token(text: Any, logprob: Any, top: Mapping[str, float]) -> Token:
    return Token(str(text or ""), _number(logprob), top)


def _itself(token: Token) -> dict[str, float]:
    return {} if token.logprob is None else {token.text: token.logprob}


def _rivals(top: Any) -> dict[str, float]:
    """A mapping token -> log-probability (completions), or a list of entries with both (chat)."""
    if isinstance(top, Mapping):
        pairs: Iterable[tuple[Any, Any]] = top.items()
    else:
        pairs = ((_field(entry, "token"), _field(entry, "logprob")) for entry in top or [])
    return {str(text): number for text, value in pairs if (number := _number(value)) is not None}


def _bare(text: str) -> str:
    return text.replace("▁", " ").replace("Ġ", " ").strip().lower()


def _text(output: Any) -> str:
    return output if isinstance(output, str) else str(_field(output, "text") or "")


def _number(value: Any) -> float | None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)
    return float(value) if number else None


def _field(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(name)
    return None if value is None or isinstance(value, str) else getattr(value, name, None)
