"""The same answer, and the answer inside a text."""

import re
import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crag_dspy.text.matching import contains_answer, found_answer, normalize, phrases, token_f1, tokens, words


def squad(text: str) -> str:
    """The official SQuAD v1.1 evaluation script's `normalize_answer`."""
    kept = "".join(
        char for char in text.lower().replace("1,000", "1000") if char not in set(string.punctuation)
    )
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", kept).split())


@given(st.text(st.characters(max_codepoint=127, exclude_characters="0123456789+#")))
@example("In the year 1931, by 3 men.")
@example("1,000 a day")
def test_on_ascii_it_is_squads_normalisation(text: str) -> None:
    assert normalize(text) == squad(text)


# Marks without a letter are not writing: taking punctuation away would put one on another letter.
written = st.text(st.characters(exclude_categories=("Mn", "Mc", "Me", "Cs")))


@given(written)
def test_normalising_twice_changes_nothing(text: str) -> None:
    assert normalize(normalize(text)) == normalize(text)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The U.S.", "us"),
        ("São Paulo", "sao paulo"),
        ("Łódź", "lodz"),
        ("1,000", "1000"),
        ("1\u202f000", "1000"),  # narrow no-break space
        ("ＡＢＣ　１２３", "abc 123"),
        ("北京。", "北京"),
        ("「北 京」", "《北京》"),
        ("GPT 模型", "GPT模型"),
        ("阿尔伯特·爱因斯坦", "阿尔伯特 爱因斯坦"),
        ("O’Brien", "O'Brien"),
        ("1914–1918", "1914-1918"),
        ("Straße", "strasse"),
        ("サッカー！", "サッカー"),
        ("½", "1/2"),
        ("1\u202f000.5", "1,000.5"),
        ("−5", "-5"),
        ("$1.5 million", "1.5 million"),
        ("20 : 1", "20 1"),
    ],
)
def test_the_same_answer_written_otherwise(one: str, other: str) -> None:
    assert normalize(one) == normalize(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("が", "か"),
        ("6½", "61/2"),
        ("北京", "南京"),
        ("й", "и"),
        ("35", "3.5"),
        ("C++", "C"),
        ("C#", "C"),
        ("1.5", "15"),
        ("$1.5 million", "$15 million"),
        ("20:1", "201"),
        ("3-2", "32"),
        ("-5", "5"),
        ("1/2", "12"),
        ("½", "12"),
        ("５．３", "53"),
        ("气温-5度", "气温5度"),
    ],
)
def test_another_answer_stays_another(one: str, other: str) -> None:
    assert normalize(one) != normalize(other)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("He studied art.", "art"),
        ("It cost 1,000 dollars", "1000"),
        ("It cost 1000 dollars", "1,000"),
        ("Einstein's theory", "Einstein"),
        ("the U.S. army", "US"),
        ("J. K. Rowling wrote it", "J.K. Rowling"),
        ("a twenty-one year old", "Twenty one"),
        ("Beatles songs", "The Beatles"),
        ("Pokémon", "pokemon"),
        ("成立于1990年", "1990"),
        ("首都是北京。", "北京"),
        ("파리는 수도이다", "파리"),
        ("he writes C++ well", "C++"),
        ("is the answer 42?", "?"),
        ("CO₂ rises", "CO2"),
        ("Paris¹ is the capital", "Paris"),
    ],
)
def test_contains(text: str, answer: str) -> None:
    assert contains_answer(text, answer)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("a party at home", "art"),  # the case that made these metrics
        ("in 21,000 homes", "1000"),
        ("it weighs 3.5 kg", "5"),
        ("born in 1990s", "199"),
        ("who sang it", "The Who"),
        ("he writes C well", "C++"),
        ("anything at all", ""),
        ("anything at all", "   "),
        ("首都是南京。", "北京"),
        ("it is -5 degrees", "5 degrees"),
        ("it costs $15 million", "$1.5 million"),
        ("it costs $1.5 million", "$15 million"),
        ("version 35", "3.5"),
        ("he writes C++ well", "C"),
    ],
)
def test_does_not_contain(text: str, answer: str) -> None:
    assert not contains_answer(text, answer)


def test_any_alias_counts_and_the_one_found_is_named() -> None:
    assert found_answer("She was born in NYC", ["New York City", "New York", "NYC"]) == "NYC"
    assert found_answer("She was born in Paris", ["New York City", "NYC"]) is None
    assert found_answer("She was born in Paris", []) is None


@given(st.text(), st.text(), st.text())
def test_words_joined_by_spaces_are_contained_whole(before: str, answer: str, after: str) -> None:
    if words(answer):
        line = " ".join([*words(before), *words(answer), *words(after)])
        assert contains_answer(line, " ".join(words(answer)))


@given(st.text(), st.lists(st.text(), min_size=1))
def test_f1_is_symmetric_bounded_and_one_for_equal_tokens(prediction: str, answers: list[str]) -> None:
    score = token_f1(prediction, answers)
    assert 0 <= score <= 1
    assert token_f1(prediction, [*answers, prediction]) == 1
    assert token_f1(prediction, answers[:1]) == token_f1(answers[0], [prediction])


def test_f1_counts_characters_where_no_spaces_are_written() -> None:
    assert tokens("北京大学 BBC") == ["北", "京", "大", "学", "bbc"]
    assert token_f1("北京大学", ["北京"]) == pytest.approx(2 * 2 / 6)
    assert token_f1("the cat sat", ["cat"]) == pytest.approx(2 / 3)
    assert token_f1("cat cat", ["cat"]) == pytest.approx(2 / 3)  # a repeated token is matched once


def test_phrases_are_words_and_pairs_of_characters() -> None:
    assert phrases("Paris is 北京大 的") == ["paris", "is", "北京", "京大", "大的"]
    assert phrases("GPT 山 x") == ["gpt", "山", "x"]
    assert phrases("") == []
