"""Examples of one document are one group, however the document is named."""

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.errors import ConfigError
from crag_dspy.optimize.questions.groups import groups_of


def example(question, **fields):
    return dspy.Example(question=question, **fields).with_inputs("question")


def test_the_document_of_an_example_is_its_group():
    groups = groups_of([example("a", document="X"), example("b", document="Y"), example("c", document="X")])

    assert groups[0] == groups[2] != groups[1]


def test_an_article_or_a_document_id_names_it_too():
    groups = groups_of([example("a", article="X"), example("b", doc_id=3), example("c", doc_id=3)])

    assert groups[1] == groups[2] != groups[0]


def test_examples_that_share_a_passage_are_one_group_and_so_are_those_that_others_link():
    groups = groups_of(
        [
            example("a", relevant_ids=["p1", "p2"]),
            example("b", relevant_ids=["p3"]),
            example("c", relevant_ids=["p4", "p2"]),
            example("d", relevant_ids=["p4"]),
        ]
    )

    assert groups[0] == groups[2] == groups[3] != groups[1]


def test_an_example_of_no_document_is_alone_with_its_repetitions():
    groups = groups_of(
        [example("a", document="X"), example("Who?"), example("who"), example("b", document="")]
    )

    assert groups[1] == groups[2]
    assert len(set(groups)) == 3


def test_none_where_nothing_says_what_an_example_was_made_from():
    assert groups_of([example("a", answers=["x"]), example("b", relevant_ids=[])]) is None


def test_a_field_or_a_function_of_the_users_own():
    examples = [example("a", book=1, document="X"), example("b", book=2, document="X"), example("c", book=1)]

    by_field, by_function = groups_of(examples, "book"), groups_of(examples, lambda one: one.book % 2)

    assert by_field[0] == by_field[2] != by_field[1]
    assert by_function[0] == by_function[2] != by_function[1]


def test_a_field_that_no_example_has_is_named():
    with pytest.raises(ConfigError, match="'shelf'"):
        groups_of([example("a", document="X")], "shelf")


@given(st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=3), min_size=1, max_size=8), st.randoms())
def test_groups_do_not_depend_on_the_order_and_never_divide_a_passage(ids, random):
    examples = [example(f"q{i}", relevant_ids=[f"p{j}" for j in each]) for i, each in enumerate(ids)]
    order = list(range(len(ids)))
    random.shuffle(order)

    groups = groups_of(examples)
    moved = groups_of([examples[i] for i in order])

    assert [groups[i] for i in order] == moved
    for i, one in enumerate(ids):
        for j, other in enumerate(ids):
            assert not set(one) & set(other) or groups[i] == groups[j]
