"""Weak labels: what is relevant and what is not, split by document, the same for the same seed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from command_line import run_command
from hypothesis import given, settings
from hypothesis import strategies as st

from crag_dspy import sample
from crag_dspy.errors import ConfigError, RetrieverError
from crag_dspy.evaluator_train.pairs.mining import Mining, PairSets, PassageSearch, document_of
from crag_dspy.evaluator_train.pairs.pair_files import Pair, read_pairs
from crag_dspy.evaluator_train.pairs.questions import Question, read_corpus, read_known
from crag_dspy.evaluator_train.pairs.splits import (
    SPLITS,
    Shares,
    with_both_labels,
    without_duplicates,
    without_leaks,
)
from crag_dspy.evaluator_train.pairs.weak_labels import answer_pairs, text_pairs, title_pairs
from crag_dspy.passages import Passage
from crag_dspy.text.matching import contains_answer, words

if TYPE_CHECKING:
    from pathlib import Path

ALL_TRAIN = Shares(dev=0, heldout=0)

TOWER = Passage("The tower is old. It was built by Smeaton in 1759. It stands on a rock.", "tower", "Tower")
BRIDGE = Passage("The bridge is long. It was built by Stevenson. Many people cross it.", "bridge", "Bridge")
PARTY = Passage("The party was held. It was built on good food. Art was not there.", "party", "Party")
TEMPLE = Passage("这座寺庙很古老。它由李明于1420年建造。寺庙在山上。", "temple", "寺庙")
RIVER = Passage("这条河很长。河上有三座桥。它由北向南流。", "river", "河")
CORPUS = [TOWER, BRIDGE, PARTY, TEMPLE, RIVER]


def labelled(sets: PairSets, label: int) -> list[Pair]:
    return [pair for split in SPLITS for pair in sets[split] if pair.label == label]


def test_a_retrieved_text_that_holds_the_answer_is_relevant_as_passage_and_as_strip() -> None:
    question = Question("Who built the tower?", ("Smeaton", "John Smeaton"))
    sets = answer_pairs([question], PassageSearch(CORPUS), Mining(shares=ALL_TRAIN))
    texts = {pair.source: pair.text for pair in labelled(sets, 1)}
    assert texts == {
        "answers/passage/positive": TOWER.text,
        "answers/strip/positive": "It was built by Smeaton in 1759.",
    }
    assert {pair.doc for pair in labelled(sets, 1)} == {"Tower"}


def test_hard_negatives_are_what_the_retriever_ranks_first_without_the_answer() -> None:
    question = Question("Who built the tower?", ("Smeaton",))
    ranking = [PARTY, TOWER, BRIDGE, RIVER]
    sets = answer_pairs(
        [question], lambda query, k: ranking[:k], Mining(hard=2, random=0, unit="passage", shares=ALL_TRAIN)
    )
    hard = [pair.text for pair in labelled(sets, 0)]
    assert hard == [PARTY.text, BRIDGE.text]
    assert {pair.source for pair in labelled(sets, 0)} == {"answers/passage/hard"}


def test_words_have_borders_and_chinese_has_none() -> None:
    art = answer_pairs(
        [Question("What was shown?", ("art",))],
        lambda query, k: [Passage("The party was loud.", "a"), Passage("There was art.", "b")],
        Mining(unit="passage", shares=ALL_TRAIN),
    )
    assert [pair.text for pair in labelled(art, 1)] == ["There was art."]
    chinese = answer_pairs(
        [Question("寺庙由谁建造？", ("李明",))], PassageSearch(CORPUS), Mining(unit="strip", shares=ALL_TRAIN)
    )
    assert [pair.text for pair in labelled(chinese, 1)] == ["它由李明于1420年建造。"]


def test_known_passages_limit_what_is_relevant_but_the_answer_elsewhere_is_no_negative() -> None:
    copy = Passage("Smeaton also drew maps.", "copy", "Maps")
    sets = answer_pairs(
        [Question("Who built the tower?", ("Smeaton",), relevant_ids=("tower",))],
        lambda query, k: [copy, BRIDGE, TOWER],
        Mining(unit="passage", random=0, shares=ALL_TRAIN),
    )
    assert [pair.text for pair in labelled(sets, 1)] == [TOWER.text]
    assert [pair.text for pair in labelled(sets, 0)] == [BRIDGE.text]


def test_questions_that_give_no_label_are_counted_by_reason() -> None:
    questions = [
        Question("Is it old?", ("yes", "Yes.")),
        Question("寺庙老吗？", ("是",)),
        Question("Who?"),
        Question("Who built the moon?", ("Nobody Known",)),
        Question("Who built the tower?", ("Smeaton",)),
        Question("who built the tower", ("Smeaton",)),
    ]
    sets = answer_pairs(questions, PassageSearch(CORPUS), Mining(shares=ALL_TRAIN))
    assert sets.skipped == {
        "answered by yes or no": 2,
        "no answers given": 1,
        "nothing retrieved is relevant": 1,
        "asked twice": 1,
    }


def test_an_answer_over_the_end_of_a_sentence_labels_the_passage_only() -> None:
    passage = Passage("They met A. Then B came.", "x")
    sets = answer_pairs(
        [Question("Who met?", ("met A. Then B",))],
        lambda query, k: [passage, BRIDGE],
        Mining(shares=ALL_TRAIN),
    )
    assert [pair.source for pair in labelled(sets, 1)] == ["answers/passage/positive"]


def test_titles_label_passages_as_the_paper_does() -> None:
    sets = title_pairs(
        [Question("What is Tower?", entity="tower"), Question("What is it?")],
        lambda query, k: [BRIDGE, TOWER, PARTY],
        Mining(hard=2, random=0, with_title=True, shares=ALL_TRAIN),
    )
    assert [pair.text for pair in labelled(sets, 1)] == [f"Tower // {TOWER.text}"]
    assert [pair.text for pair in labelled(sets, 0)] == [f"Bridge // {BRIDGE.text}", f"Party // {PARTY.text}"]
    assert sets.skipped == {"no entity given": 1}


def test_text_alone_pairs_a_sentence_with_its_own_passage_and_with_others() -> None:
    sets = text_pairs([*CORPUS, Passage("Just one.", "one")], Mining(shares=ALL_TRAIN))
    by_document = {document_of(passage): passage.text for passage in CORPUS}
    for pair in labelled(sets, 1):
        assert pair.question in by_document[pair.doc]
        assert pair.question not in pair.text
        assert set(words(pair.text)) <= set(words(by_document[pair.doc]))
    for pair in labelled(sets, 0):
        assert pair.question not in by_document[pair.doc]
    assert sets.skipped == {"passages of one sentence": 1}
    assert len(labelled(sets, 1)) == len(CORPUS)


def test_missing_hard_negatives_are_made_up_by_random_ones() -> None:
    def retrieve(query: str, k: int) -> list[Passage]:
        return [TOWER] if "tower" in query else [BRIDGE]

    questions = [Question("The tower: who?", ("Smeaton",)), Question("The bridge: who?", ("Stevenson",))]
    sets = answer_pairs(questions, retrieve, Mining(hard=1, random=0, unit="passage", shares=ALL_TRAIN))
    assert {(pair.question, pair.text, pair.source) for pair in labelled(sets, 0)} == {
        ("The tower: who?", BRIDGE.text, "answers/passage/random"),
        ("The bridge: who?", TOWER.text, "answers/passage/random"),
    }


def sample_corpus() -> list[Passage]:
    return [
        Passage(row["text"], row["id"], row["title"], metadata={"document": row["id"]})
        for row in [*sample.knowledge(), *sample.web()]
    ]


def sample_questions() -> list[Question]:
    return [
        Question(row["question"], tuple(row["answers"]), relevant_ids=tuple(row["relevant_ids"]))
        for row in sample.questions()[::4]
        if row["answers"]
    ]


@pytest.fixture(scope="module")
def mined() -> PairSets:
    shares = Shares(dev=0.2, heldout=0.2, seed=1)
    return answer_pairs(sample_questions(), PassageSearch(sample_corpus()), Mining(shares=shares))


def test_real_texts_in_both_languages_give_balanced_pairs_in_every_split(mined: PairSets) -> None:
    for split in SPLITS:
        relevant = sum(pair.label for pair in mined[split])
        assert relevant >= 5
        assert 1.5 * relevant <= len(mined[split]) - relevant <= 2 * relevant
    texts = [pair.text for pair in mined["train"]]
    assert any(text.isascii() for text in texts)
    assert any("的" in text for text in texts)


def test_no_negative_holds_an_answer_and_every_positive_does(mined: PairSets) -> None:
    answers = {question.question: question.answers for question in sample_questions()}
    for split in SPLITS:
        for pair in mined[split]:
            assert contains_answer(pair.text, answers[pair.question]) == bool(pair.label), pair


def test_no_document_question_or_text_is_in_two_splits(mined: PairSets) -> None:
    for field in ("doc", "question", "text"):
        seen = [{getattr(pair, field) for pair in mined[split]} for split in SPLITS]
        assert len(set.union(*seen)) == sum(map(len, seen)), field


def test_a_seed_gives_the_same_pairs_and_another_seed_others(mined: PairSets) -> None:
    def again(seed: int) -> PairSets:
        mining = Mining(shares=Shares(dev=0.2, heldout=0.2, seed=seed))
        return answer_pairs(sample_questions(), PassageSearch(sample_corpus()), mining)

    assert again(1).splits == mined.splits
    assert again(2).splits != mined.splits


def test_one_more_question_leaves_the_positives_of_the_others_alone(mined: PairSets) -> None:
    more = [
        *sample_questions(),
        Question("Which reef is called the Inchcape?", ("the Bell Rock", "Bell Rock")),
    ]
    shares = Shares(dev=0.2, heldout=0.2, seed=1)
    again = answer_pairs(more, PassageSearch(sample_corpus()), Mining(shares=shares))
    assert set(labelled(mined, 1)) <= set(labelled(again, 1))


def test_a_retriever_that_fails_on_one_question_costs_that_question() -> None:
    def retrieve(query: str, k: int) -> list[Passage]:
        if "bridge" in query:
            raise OSError("connection lost")
        return [TOWER, BRIDGE]

    questions = [
        Question("Who built the bridge?", ("Stevenson",)),
        Question("Who built the tower?", ("Smeaton",)),
    ]
    sets = answer_pairs(questions, retrieve, Mining(shares=ALL_TRAIN))
    assert sets.skipped == {"retriever failed": 1}
    assert labelled(sets, 1)
    with pytest.raises(RetrieverError, match=r"all 1 questions.*connection lost"):
        answer_pairs(questions[:1], retrieve)


def test_a_disputed_pair_is_dropped_and_a_repeated_one_kept_once() -> None:
    pairs = [
        Pair("Who?", "Bob did.", 1),
        Pair("who", "Bob did", 0),
        Pair("Who?", "Ann did.", 1),
        Pair("Who?", "ANN did", 1),
    ]
    assert without_duplicates(pairs) == [pairs[2]]


def test_a_long_run_of_the_same_words_is_a_leak_and_a_short_one_is_not() -> None:
    run = "one two three four five six seven eight nine ten eleven twelve"
    held = [Pair("held?", f"It says {run} at the end.", 1)]
    leaks = [Pair("a?", f"Before: {run}, after.", 1), Pair("b?", f"Copy of {run}.", 0)]
    fine = [Pair("c?", "It says one two three four five six.", 1)]
    kept = without_leaks({"heldout": held, "dev": [leaks[0]], "train": [leaks[1], *fine]})
    assert kept == {"train": fine, "dev": [], "heldout": held}


def test_a_question_that_lost_all_its_texts_of_one_label_is_dropped() -> None:
    pairs = [
        Pair("a?", "yes", 1, "answers/strip/positive"),
        Pair("a?", "no", 0, "answers/strip/hard"),
        Pair("a?", "a passage", 0, "answers/passage/hard"),
        Pair("b?", "yes", 1, "answers/strip/positive"),
    ]
    assert with_both_labels(pairs) == pairs[:2]


pair = st.builds(
    Pair,
    st.sampled_from(["q1", "q2", "q3"]),
    st.sampled_from(["alpha", "beta", "Alpha.", "gamma"]),
    st.integers(0, 1),
)


@given(st.fixed_dictionaries({split: st.lists(pair, max_size=6) for split in SPLITS}))
def test_splits_never_share_a_question_or_a_text(splits: dict[Any, list[Pair]]) -> None:
    kept = without_leaks(splits)
    assert kept["heldout"] == splits["heldout"]
    seen: set[str] = set()
    for split in SPLITS:
        own = {" ".join(words(text)) for row in kept[split] for text in (row.question, row.text)}
        assert not own & seen
        seen |= own


@settings(max_examples=20)
@given(st.floats(0, 0.5), st.floats(0, 0.5), st.integers(0, 5))
def test_shares_are_kept_and_a_document_stays_where_it_is(dev: float, heldout: float, seed: int) -> None:
    shares = Shares(dev, heldout, seed)
    places = [shares.of(f"document {number}") for number in range(1000)]
    assert places == [Shares(dev, heldout, seed).of(f"document {number}") for number in range(1000)]
    for split, share in (("dev", dev), ("heldout", heldout)):
        assert abs(places.count(split) / 1000 - share) < 0.07


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda: Mining(hard=0, random=0), "hard . random"),
        (lambda: Mining(hard=-1), "hard"),
        (lambda: Mining(unit="word"), "unit.*strip"),  # type: ignore[arg-type]
        (lambda: Shares(0.6, 0.6), "dev . heldout"),
        (lambda: Shares(dev=-0.1), "dev"),
        (lambda: Question(" "), "question"),
        (lambda: Question("q", "answer"), "answers must be a list"),  # type: ignore[arg-type]
    ],
)
def test_bad_settings_are_named(make: Any, names: str) -> None:
    with pytest.raises(ConfigError, match=names):
        make()


SQUAD = {
    "data": [
        {
            "title": "Tower",
            "paragraphs": [
                {
                    "context": TOWER.text,
                    "qas": [
                        {
                            "id": "1",
                            "question": "Who built it?",
                            "answers": [{"text": "Smeaton", "answer_start": 34}],
                        }
                    ],
                },
                {"context": "A second paragraph. It is short.", "qas": []},
            ],
        }
    ]
}


def test_squad_files_are_questions_and_corpus(tmp_path: Path) -> None:
    path = tmp_path / "squad.json"
    path.write_text(json.dumps(SQUAD), encoding="utf-8")
    corpus = read_corpus(path)
    (question,) = read_known(path)
    assert [document_of(passage) for passage in corpus] == ["Tower", "Tower"]
    assert question.answers == ("Smeaton",)
    assert [passage.text for passage in corpus if passage.id in question.relevant_ids] == [TOWER.text]


def test_long_documents_are_cut_and_stay_one_document(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("This is a sentence of seven words. " * 100, encoding="utf-8")
    passages = read_corpus(tmp_path)
    assert len(passages) > 2
    assert {document_of(passage) for passage in passages} == {"long.txt"}


@pytest.mark.parametrize(
    ("name", "content", "names"),
    [
        ("q.jsonl", '{"answers": ["a"]}\n', r"q\.jsonl:1: question"),
        ("q.jsonl", '\n{"question": "q", "answers": [1]}\n', r"q\.jsonl:2: answers"),
        ("q.jsonl", '{"question": "q", "answers": 5}\n', r"q\.jsonl:1"),
        ("q.jsonl", "no\n", r"q\.jsonl:1: not JSON"),
        ("q.jsonl", "\n", "holds no questions"),
        ("q.json", '{"data": [{"paragraphs": [{}]}]}', r"q\.json: data\[0\].paragraphs\[0\].context"),
    ],
)
def test_a_question_file_that_cannot_be_read_says_where(
    tmp_path: Path, name: str, content: str, names: str
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=names):
        read_known(tmp_path / name)


def make_pairs(*arguments: str) -> int:
    return run_command("grader", "pairs", *arguments)


def test_the_command_writes_three_files_that_can_be_read_and_counts_on_stdout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "squad.json"
    path.write_text(json.dumps(SQUAD), encoding="utf-8")
    out = tmp_path / "out"
    arguments = ("--corpus", str(path), "--questions", str(path), "--out", str(out), "--json")
    assert make_pairs(*arguments, "--dev-share", "0", "--heldout-share", "0") == 0
    counts = json.loads(capsys.readouterr().out)
    assert counts["train"]["pairs"] == len(read_pairs(out / "train.jsonl"))
    assert counts["train"]["relevant"] == 2
    assert counts["dev"] == {"pairs": 0, "relevant": 0}
    assert (out / "heldout.jsonl").read_text() == ""


def test_the_command_makes_pairs_from_text_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for passage in CORPUS:
        (tmp_path / f"{passage.id}.txt").write_text(passage.text, encoding="utf-8")
    assert (
        make_pairs(
            "--corpus",
            str(tmp_path),
            "--out",
            str(tmp_path / "out"),
            "--dev-share",
            "0",
            "--heldout-share",
            "0",
        )
        == 0
    )
    assert {p.source.split("/")[0] for p in read_pairs(tmp_path / "out" / "train.jsonl")} == {"text"}
    assert "train" in capsys.readouterr().out


def test_hard_negatives_come_from_a_local_index(tmp_path: Path) -> None:
    from crag_dspy.retrievers.local import LocalIndex

    index = LocalIndex.create(tmp_path / "index", embedder=None)
    index.add(CORPUS)
    sets = answer_pairs(
        [Question("Who built the tower on the rock?", ("Smeaton",))],
        index,
        Mining(unit="passage", shares=ALL_TRAIN),
    )
    assert [pair.text for pair in labelled(sets, 1)] == [TOWER.text]
    assert "answers/passage/hard" in {pair.source for pair in labelled(sets, 0)}


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ((), "--corpus, --index, --near and --teacher"),
        (("--corpus", "FILE", "--near"), "got --corpus or --index and --near"),
        (("--corpus", "FILE", "--index", "FILE"), "either --corpus or --index"),
        (("--corpus", "FILE", "--labels", "answers"), "--questions with the field 'answers'"),
        (("--corpus", "FILE", "--labels", "titles"), "'entity'"),
        (("--index", "FILE", "--labels", "text"), "--corpus"),
        (("--corpus", "absent.jsonl"), "absent"),
    ],
)
def test_the_command_says_what_is_missing(tmp_path: Path, arguments: tuple[str, ...], names: str) -> None:
    (tmp_path / "c.txt").write_text(TOWER.text, encoding="utf-8")
    given_arguments = [str(tmp_path / "c.txt") if a == "FILE" else a for a in arguments]
    with pytest.raises(ConfigError, match=names):
        make_pairs(*given_arguments, "--out", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()
