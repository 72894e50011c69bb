"""Examples are divided by whole documents, each question once, and nothing that is judged on was learned from."""

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.errors import ConfigError
from crag_dspy.optimize.questions.division import divide
from crag_dspy.optimize.questions.groups import groups_of


def examples(count, documents=None, start=0, **fields):
    return [
        dspy.Example(
            question=f"question {i}",
            answers=["a"],
            **({} if documents is None else {"document": f"d{i % documents}"}),
            **fields,
        ).with_inputs("question")
        for i in range(start, start + count)
    ]


def questions(part):
    return {example.question for example in part}


@given(st.integers(6, 60), st.integers(3, 12), st.integers(0, 5))
def test_a_document_is_in_one_part_or_the_notes_say_otherwise(count, documents, seed):
    division = divide(examples(count, documents), seed=seed)
    parts = [division.train, division.val, division.held]
    of = [{example.document for example in part} for part in parts]

    whole = not (of[0] & of[1] or of[0] & of[2] or of[1] & of[2])
    assert whole != bool(division.notes)
    assert sum(map(len, parts)) == count
    assert min(map(len, parts)) > 0


def test_two_documents_cannot_be_dealt_whole_into_three_parts_and_that_is_said():
    division = divide(examples(20, documents=2))

    assert division.sizes == {"to learn from": 6, "to choose by": 6, "held out": 8}
    assert "2 documents, which cannot be dealt whole" in division.notes[0]


def test_questions_of_one_passage_stay_together():
    data = [
        dspy.Example(**e, relevant_ids=[f"p{i // 2}"]).with_inputs("question")
        for i, e in enumerate(examples(20))
    ]
    division = divide(data)
    group = dict(zip(map(id, data), groups_of(data), strict=True))

    assert not {group[id(e)] for e in division.held} & {
        group[id(e)] for e in [*division.train, *division.val]
    }
    assert division.notes == []


def test_documents_are_what_the_user_says_they_are():
    division = divide(examples(24), chooses=False, by=lambda example: int(example.question.split()[1]) // 4)
    books = [{int(e.question.split()[1]) // 4 for e in part} for part in (division.train, division.held)]

    assert not books[0] & books[1]


def test_a_repeated_question_counts_once_and_that_is_said():
    data = examples(10)
    data += [dspy.Example(question="Question 3?", answers=["b"]).with_inputs("question")]
    division = divide(data, heldout=[*examples(3, start=20), *examples(1, start=20)], chooses=False)

    assert (len(division.train), len(division.held)) == (10, 3)
    assert division.notes == [
        "1 repeated questions of those to learn from count once",
        "1 repeated questions of those held out count once",
    ]


def test_the_same_question_on_another_text_is_another_question():
    data = [
        dspy.Example(question="Who?", context=f"text {i}", answer="a").with_inputs("question", "context")
        for i in range(8)
    ]

    assert sum(divide(data).sizes.values()) == 8


@pytest.mark.parametrize(
    ("given_parts", "message"),
    [
        ({"heldout": examples(1, start=3)}, "both to learn from and held out"),
        ({"valset": examples(1, start=3)}, "both to learn from and to choose by"),
        (
            {"valset": examples(2, start=20), "heldout": examples(2, start=21)},
            "both to choose by and held out",
        ),
    ],
)
def test_overlap_of_given_parts_is_refused(given_parts, message):
    with pytest.raises(ConfigError, match=message):
        divide(examples(10), **given_parts)


def test_given_parts_that_share_documents_are_told():
    division = divide(examples(10, documents=5), heldout=examples(10, documents=5, start=10), chooses=False)

    assert "5 of 5 documents of the held-out questions" in division.notes[0]


def test_what_is_learned_from_does_not_depend_on_the_held_out_questions():
    few, many = (divide(examples(12), heldout=examples(n, start=100)) for n in (2, 50))

    assert questions(few.train) == questions(many.train)
    assert questions(few.val) == questions(many.val)
