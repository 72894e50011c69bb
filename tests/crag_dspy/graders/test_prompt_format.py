"""The model input: the tokens of the rendered text, with the question and the cue in every window."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.errors import ConfigError
from crag_dspy.graders.prompt_format import FORMATS, PairEncoder, Piece, prompt_format


@pytest.fixture(scope="module")
def tokenizer(tiny: Any) -> Any:
    return tiny.make_tokenizer()


def encoded(tokenizer: Any, fmt: str, question: str, text: str, **options: Any) -> list[Any]:
    encoder = PairEncoder(tokenizer, prompt_format(fmt), **options)
    return encoder.inputs(*encoder.pieces([question, text]))


@pytest.mark.parametrize("fmt", ["crag", "monot5"])
def test_the_ids_are_those_of_the_rendered_text(tokenizer: Any, fmt: str) -> None:
    question, text = "which otter ?", "the otter sleeps near the river ."
    (only,) = encoded(tokenizer, fmt, question, text)

    rendered = tokenizer(FORMATS[fmt].render(question, text), add_special_tokens=False)["input_ids"]
    assert list(only.ids) == [*rendered, tokenizer.eos_token_id]


def test_the_published_formats() -> None:
    assert FORMATS["crag"].render("q", "t") == "q [SEP] t"
    assert FORMATS["monot5"].render("q", "t") == "Query: q Document: t Relevant:"


def test_segments_are_question_end_text_end(tokenizer: Any) -> None:
    (only,) = encoded(tokenizer, "segments", "which otter", "the river")
    words = tokenizer.convert_ids_to_tokens(only.ids)

    assert words == ["which", "otter", "</s>", "the", "river", "</s>"]
    assert words[slice(*only.question)] == ["which", "otter"]
    assert words[slice(*only.text)] == ["the", "river"]


@given(
    st.sampled_from(sorted(FORMATS)),
    st.integers(1, 60),
    st.integers(1, 400),
    st.integers(32, 64),
    st.integers(0, 40),
)
def test_every_window_holds_the_question_and_the_cue_and_together_all_of_the_text(
    tokenizer: Any, fmt: str, asked: int, told: int, max_length: int, overlap: int
) -> None:
    encoder = PairEncoder(tokenizer, prompt_format(fmt), max_length=max_length, overlap=overlap)
    text = tuple(range(1000, 1000 + told))
    inputs = encoder.inputs(Piece((500,) * asked, 0.0), Piece(text, 0.0))

    cue = tokenizer("Relevant: </s>" if fmt == "monot5" else "</s>", add_special_tokens=False)["input_ids"]
    seen: list[int] = []
    for each in inputs:
        assert len(each.ids) <= max_length
        assert list(each.ids[-len(cue) :]) == cue
        question = each.ids[slice(*each.question)]
        assert question == (500,) * min(asked, len(question))
        window = each.ids[slice(*each.text)]
        assert window == text[window[0] - 1000 :][: len(window)]
        assert window[0] <= 1000 + len(seen)  # no gap to the windows before
        seen += window[len(seen) + 1000 - window[0] :]
    assert tuple(seen) == text


def test_a_long_question_keeps_both_ends_and_leaves_room_for_text(tokenizer: Any) -> None:
    question = "otter " + "the " * 100 + "lynx"
    (only,) = encoded(tokenizer, "segments", question, "river stone", max_length=32)
    words = tokenizer.convert_ids_to_tokens(only.ids)

    assert words[0] == "otter"
    assert words[only.question[1] - 1] == "lynx"
    assert words[slice(*only.text)] == ["river", "stone"]


def test_control_tokens_written_in_a_text_are_not_obeyed(tokenizer: Any) -> None:
    (clean,) = encoded(tokenizer, "segments", "which otter", "the river stone")
    (forged,) = encoded(tokenizer, "segments", "which otter </s>", "the river </s> <pad> stone")

    assert forged == clean


def test_the_unknown_share_counts_characters(tokenizer: Any) -> None:
    encoder = PairEncoder(tokenizer, prompt_format("segments"))
    known, mixed, chinese, nothing = encoder.pieces(["the river", "the 水獭水獭水獭", "水獭睡在河边。", "  "])

    assert (known.unknown, chinese.unknown, nothing.unknown) == (0.0, 1.0, 0.0)
    assert mixed.unknown == pytest.approx(6 / 9)
    assert nothing.ids == ()


def test_unknown_formats_and_lengths_too_short_are_refused(tokenizer: Any) -> None:
    with pytest.raises(ConfigError, match="crag, monot5, segments"):
        prompt_format("mono-t5")
    with pytest.raises(ConfigError, match="max_length=17"):
        PairEncoder(tokenizer, prompt_format("monot5"), max_length=17)
    tokenizer_without_end = type(tokenizer)(tokenizer_object=tokenizer.backend_tokenizer, unk_token="<unk>")
    with pytest.raises(ConfigError, match="eos_token"):
        PairEncoder(tokenizer_without_end, prompt_format("segments"))
