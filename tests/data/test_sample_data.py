"""The sample data keeps its word: ids exist, answers are where they are said to be, splits share nothing."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from itertools import combinations, product
from typing import Any

import pytest

from crag_dspy import sample

SPLITS = ("train", "dev", "test")
EXPECTATIONS = ("internal", "web", "both", "none")
PASSAGE_FIELDS = {"id", "title", "text", "url", "lang"}
QUESTION_FIELDS = {"id", "question", "answers", "relevant_ids", "split", "lang", "expect"}
CJK_RANGES = r"\u3040-\u30ff\u3400-\u9fff"
CJK = re.compile(f"[{CJK_RANGES}]")

PASSAGES = {row["id"]: row for row in [*sample.knowledge(), *sample.web()]}
QUESTIONS = sample.questions()
ASKED_LANGUAGES = sorted({row["lang"] for row in QUESTIONS})
HAS_CHINESE = all(
    any(row["lang"] == "zh" for row in rows) for rows in (sample.knowledge(), sample.web(), QUESTIONS)
)


def contains(text: str, answer: str) -> bool:
    """On word boundaries without regard to case.

    Chinese and Japanese have no such boundaries: an answer in them is a substring, and beside a Latin answer
    or a number their characters count as a boundary, as in 密率355/113是.
    """
    if CJK.search(answer):
        return answer.lower() in text.lower()
    letter = rf"[^\W{CJK_RANGES}]"
    return re.search(rf"(?<!{letter}){re.escape(answer)}(?!{letter})", text, re.IGNORECASE) is not None


@cache
def tokens(question: str) -> frozenset[str]:
    """Words, and for Chinese the pairs of neighbouring characters."""
    words = [word for word in re.findall(r"\w+", question.lower()) if not CJK.search(word)]
    runs = re.findall(f"[{CJK_RANGES}]+", question)
    return frozenset(words) | {run[i : i + 2] for run in runs for i in range(max(1, len(run) - 1))}


def similarity(a: str, b: str) -> float:
    """Jaccard similarity of the tokens, in [0, 1]."""
    left, right = tokens(a), tokens(b)
    return len(left & right) / max(1, len(left | right))


class TestPassages:
    def test_have_the_documented_fields_and_no_others(self) -> None:
        wrong = [p["id"] for p in PASSAGES.values() if set(p) != PASSAGE_FIELDS]
        assert wrong == []

    def test_ids_are_unique_and_say_collection_and_language(self) -> None:
        for rows, prefix in ((sample.knowledge(), "kb"), (sample.web(), "web")):
            counts = Counter(row["id"] for row in rows)
            assert [i for i, n in counts.items() if n > 1] == []
            assert [
                r["id"] for r in rows if not re.fullmatch(rf"{prefix}-{r['lang']}-\d{{3}}", r["id"])
            ] == []

    def test_texts_and_titles_are_there_and_texts_are_not_repeated(self) -> None:
        assert [p["id"] for p in PASSAGES.values() if not p["text"].strip() or not p["title"].strip()] == []
        assert len({p["text"] for p in PASSAGES.values()}) == len(PASSAGES)

    def test_every_passage_names_a_source_over_https(self) -> None:
        wrong = [
            p["id"]
            for p in PASSAGES.values()
            if not re.fullmatch(r"https://[^\s/]+\.[^\s/]+(/\S*)?", p["url"])
        ]
        assert wrong == []

    def test_english_passages_hold_more_than_one_answer_needs(self) -> None:
        # Refinement can be seen to work only where a passage has sentences that a question does not need.
        lengths = {p["id"]: len(p["text"].split()) for p in PASSAGES.values() if p["lang"] == "en"}
        assert {i: n for i, n in lengths.items() if not 60 <= n <= 170} == {}


class TestQuestions:
    def test_have_the_documented_fields_and_no_others(self) -> None:
        assert [q["id"] for q in QUESTIONS if set(q) != QUESTION_FIELDS] == []

    def test_ids_are_unique_and_say_the_language(self) -> None:
        assert len({q["id"] for q in QUESTIONS}) == len(QUESTIONS)
        assert [q["id"] for q in QUESTIONS if not re.fullmatch(rf"q-{q['lang']}-\d{{3}}", q["id"])] == []

    @pytest.mark.parametrize("lang", ASKED_LANGUAGES)
    def test_every_split_of_every_language_has_every_expectation(self, lang: str) -> None:
        found = {(q["split"], q["expect"]) for q in sample.questions(lang=lang)}
        assert found == set(product(SPLITS, EXPECTATIONS))

    def test_relevant_ids_exist(self) -> None:
        missing = [(q["id"], i) for q in QUESTIONS for i in q["relevant_ids"] if i not in PASSAGES]
        assert missing == []

    def test_every_passage_that_is_named_holds_the_answer_or_an_alias(self) -> None:
        without = [
            (q["id"], i)
            for q in QUESTIONS
            for i in q["relevant_ids"]
            if not any(contains(PASSAGES[i]["text"], answer) for answer in q["answers"])
        ]
        assert without == []

    def test_the_gold_answer_itself_can_be_quoted(self) -> None:
        only_aliases = [
            q["id"]
            for q in QUESTIONS
            if q["answers"]
            and not any(contains(PASSAGES[i]["text"], q["answers"][0]) for i in q["relevant_ids"])
        ]
        assert only_aliases == []

    def test_expect_says_where_the_evidence_is(self) -> None:
        collections = {"internal": {"kb"}, "web": {"web"}, "both": {"kb", "web"}, "none": set()}
        wrong = [
            q["id"]
            for q in QUESTIONS
            if {i.split("-")[0] for i in q["relevant_ids"]} != collections[q["expect"]]
        ]
        assert wrong == []

    def test_relevant_passages_are_of_the_questions_language_and_named_once(self) -> None:
        for q in QUESTIONS:
            assert {PASSAGES[i]["lang"] for i in q["relevant_ids"]} <= {q["lang"]}, q["id"]
            assert len(set(q["relevant_ids"])) == len(q["relevant_ids"]), q["id"]

    def test_only_questions_that_nothing_answers_have_no_answer(self) -> None:
        assert [q["id"] for q in QUESTIONS if bool(q["answers"]) == (q["expect"] == "none")] == []

    def test_no_question_gives_its_answer_away(self) -> None:
        # An answer found in the question would score as right without any evidence.
        given = [(q["id"], a) for q in QUESTIONS for a in q["answers"] if contains(q["question"], a)]
        assert given == []

    def test_no_answer_is_blank_or_listed_twice(self) -> None:
        for q in QUESTIONS:
            assert all(a.strip() == a and a for a in q["answers"]), q["id"]
            assert len(set(q["answers"])) == len(q["answers"]), q["id"]


def test_splits_share_no_question_and_no_near_duplicate() -> None:
    pairs = [
        (a["id"], b["id"])
        for a, b in combinations(QUESTIONS, 2)
        if a["split"] != b["split"] and similarity(a["question"], b["question"]) >= 0.8
    ]
    assert pairs == []


def test_near_duplicates_are_recognised_in_both_scripts() -> None:
    # The rule above would be empty if `similarity` saw none: Chinese has no spaces between its words.
    assert similarity("Who built the EDSAC machine?", "who built the EDSAC machine") == 1.0
    assert similarity("秦朝的都城在哪里？", "秦朝的都城在哪里") == 1.0
    assert similarity("秦朝的都城在哪里？", "谁写了史记？") < 0.2


def test_containment_knows_words_and_scripts() -> None:
    assert contains("It opened in 1889.", "1889")
    assert not contains("The party left.", "art")
    assert contains("祖冲之的密率355/113是", "355/113")
    assert contains("都城在咸阳。", "咸阳")


def test_english_alone_is_large_enough_to_tune_and_test_on() -> None:
    counts = Counter((q["split"], q["expect"]) for q in sample.questions(lang="en"))
    size = {split: sum(n for (s, _), n in counts.items() if s == split) for split in SPLITS}
    assert sum(size.values()) >= 100
    assert size["train"] >= 40
    assert size["dev"] >= 35
    assert size["test"] >= 45
    assert counts["test", "none"] >= 8


@pytest.mark.skipif(
    not HAS_CHINESE, reason="the Chinese files are not there: knowledge, web and questions .zh.jsonl"
)
def test_both_languages_together_are_large_enough() -> None:
    assert len(sample.knowledge()) >= 120
    assert len(sample.web()) >= 120
    assert len(sample.questions(lang="zh")) >= 50


class TestLoader:
    def test_a_language_is_a_part_of_the_whole(self) -> None:
        for read in (sample.knowledge, sample.web, lambda lang=None: sample.questions(lang=lang)):
            assert [row for row in read() if row["lang"] == "en"] == read("en")

    def test_splits_make_up_the_whole(self) -> None:
        parts = [q["id"] for split in SPLITS for q in sample.questions(split, lang="en")]
        assert sorted(parts) == sorted(q["id"] for q in sample.questions(lang="en"))

    def test_rows_are_fresh_so_that_a_caller_may_change_them(self) -> None:
        sample.knowledge("en")[0]["text"] = "changed"
        assert sample.knowledge("en")[0]["text"] != "changed"

    def test_unknown_split_names_the_splits(self) -> None:
        with pytest.raises(ValueError, match=r"split='validation'.*train, dev, test"):
            sample.questions("validation")

    @pytest.mark.parametrize("read", [sample.knowledge, sample.web, lambda lang: sample.questions(lang=lang)])
    def test_unknown_language_names_the_languages(self, read: Any) -> None:
        with pytest.raises(ValueError, match=r"lang='fr'.*en"):
            read("fr")
