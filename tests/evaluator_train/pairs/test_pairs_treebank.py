"""Penn Treebank tokens become text as a person writes it; other text is left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.evaluator_train.pairs.treebank import detokenise, token_dialect


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ("Is it the dog 's bone , or not ?", "Is it the dog's bone, or not?"),
        ("He did n't -LRB- and wo n't -RRB- pay $ 5 .", "He didn't (and won't) pay $5."),
        ("The book , `` A Life : Part 1 '' , sold 20 % more .", 'The book, "A Life: Part 1", sold 20% more.'),
        ("`` Stop , '' she said -- `` now . ''", '"Stop," she said -- "now."'),
        ('She called it " home " and " hell " .', 'She called it "home" and "hell".'),
        ("The players ' union met at 10 : 30 .", "The players' union met at 10:30."),
        ("They said ` never ' to it .", "They said 'never' to it."),
        ("I 'm gon na go -LSB- sic -RSB- ...", "I'm gonna go [sic]..."),
        ("It is # 1 in the U.S. today .", "It is #1 in the U.S. today."),
        ("-lrb- Lower case too -rrb-", "(Lower case too)"),
        ("", ""),
    ],
)
def test_tokens_become_text(tokens: str, text: str) -> None:
    assert detokenise(tokens) == text


def test_hyphens_are_joined_only_on_request_and_dashes_never() -> None:
    assert detokenise("a well - known man - he said") == "a well - known man - he said"
    assert detokenise("a well - known man", join_hyphens=True) == "a well-known man"
    assert detokenise("he came – and went -- away", join_hyphens=True) == "he came – and went -- away"


written = st.lists(st.from_regex(r"[A-Za-z0-9]+[,.;]?", fullmatch=True), min_size=1, max_size=12).map(
    " ".join
)


@given(written)
def test_text_that_is_not_tokenised_stays_as_it_is(text: str) -> None:
    cleaned = " ".join(
        word for word in text.split() if word.lower() not in ("gon", "wan", "got", "lem", "gim")
    )
    assert detokenise(cleaned) == cleaned


@given(st.text(alphabet="ab'\"`.,()-$% sS"))
def test_no_letter_is_lost_and_a_second_pass_changes_no_words(text: str) -> None:
    once = detokenise(text)
    assert [char for char in once if char.isalpha()] == [char for char in text if char.isalpha()]


def test_dialects_are_told_apart_by_most_of_the_texts() -> None:
    written_texts = ["Who is it?", "It is Bob.", "No end mark", "An odd one ."]
    assert token_dialect(written_texts) is None
    assert token_dialect(["Who is it ?", "It is Bob .", "`` Well , '' he said ."]) == "treebank"
    assert token_dialect(["Who is it ?", "A well - known man , Bob ."]) == "split-hyphens"
    assert token_dialect([]) is None
