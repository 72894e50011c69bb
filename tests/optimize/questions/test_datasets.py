"""Data files as examples: every format, every mistake with its line, and splits that hold."""

from __future__ import annotations

import json
import sys
import types
from typing import TYPE_CHECKING, Any

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy import sample
from crag_dspy.errors import ConfigError
from crag_dspy.files.squad import read_squad
from crag_dspy.optimize.questions.datasets import from_rows, load, split

if TYPE_CHECKING:
    from pathlib import Path


def written(folder: Path, name: str, content: str | list[Any] | dict[str, Any]) -> Path:
    path = folder / name
    if isinstance(content, list) and name.endswith("jsonl"):
        content = "\n".join(json.dumps(row, ensure_ascii=False) for row in content)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


SQUAD = {
    "version": "1.1",
    "data": [
        {
            "title": "Warsaw",
            "paragraphs": [
                {
                    "context": "Warsaw is the capital of Poland.",
                    "qas": [
                        {
                            "id": "q1",
                            "question": "What is the capital of Poland?",
                            "answers": [
                                {"text": "Warsaw", "answer_start": 0},
                                {"text": "Warsaw", "answer_start": 0},
                            ],
                        },
                        {"id": "q2", "question": "Who is the mayor?", "answers": [], "is_impossible": True},
                    ],
                },
                {"context": "It lies on the Vistula.", "id": "own-id", "qas": []},
            ],
        },
        {
            "paragraphs": [
                {
                    "context": "北京是中国的首都。",
                    "qas": [{"question": "首都？", "answers": [{"text": "北京"}]}],
                }
            ]
        },
    ],
}


class TestFormats:
    def test_jsonl_with_every_field(self, tmp_path: Path) -> None:
        row = {
            "id": 7,
            "question": " Where? ",
            "answers": ["Paris", "Paris", "Paname"],
            "relevant_ids": [1, "2"],
            "context": "In Paris.",
            "choices": {"A": "Paris", "B": "Rome"},
            "document": "France",
            "passages": [{"title": "France", "text": "In Paris."}],
        }
        (example,) = load(written(tmp_path, "dev.jsonl", "\ufeff" + json.dumps(row) + "\n\n"))
        assert example.inputs().toDict() == {"question": "Where?"}
        assert example.answers == ["Paris", "Paname"]
        assert example.relevant_ids == ["1", "2"]
        assert example.choices == {"A": "Paris", "B": "Rome"}
        assert (example.id, example.document, example.context) == ("7", "France", "In Paris.")
        assert example.passages[0]["text"] == "In Paris."

    @pytest.mark.parametrize(
        ("given", "answers"),
        [
            ("Paris", ["Paris"]),
            (1912, ["1912"]),
            (True, ["true"]),
            ([], []),
            ('["a", "b"]', ["a", "b"]),
            ({"text": ["a", "b", "a"], "answer_start": [0, 1, 2]}, ["a", "b"]),
            ({"value": "a", "aliases": ["b", "a"]}, ["a", "b"]),
        ],
    )
    def test_answers_come_in_many_shapes(self, tmp_path: Path, given: Any, answers: list[str]) -> None:
        path = written(tmp_path, "dev.jsonl", [{"question": "q", "answers": given}])
        assert load(path)[0].answers == answers

    def test_csv_and_tsv(self, tmp_path: Path) -> None:
        text = 'question,answers,choices\n"Where, then?","[""Paris"", ""Paname""]",\nWhen?,1912,"{""A"": ""x""}"\n'
        first, second = load(written(tmp_path, "dev.csv", text))
        assert (first.question, first.answers) == ("Where, then?", ["Paris", "Paname"])
        assert (second.answers, second.choices) == (["1912"], {"A": "x"})
        assert load(written(tmp_path, "dev.tsv", "question\tanswer\nWhere?\tParis"))[0].answers == ["Paris"]

    def test_squad(self, tmp_path: Path) -> None:
        path = written(tmp_path, "squad.json", SQUAD)
        answerable, impossible, chinese = load(path)
        assert answerable.answers == ["Warsaw"]
        assert answerable.context == "Warsaw is the capital of Poland."
        assert answerable.document == "Warsaw"
        assert impossible.answers == []
        assert chinese.document == chinese.relevant_ids[0]  # no title: the paragraph is its own document
        indexed = {paragraph.id: paragraph.passage() for paragraph in read_squad(path)}
        assert set(indexed) == {"Warsaw#0", "own-id", "1#0"}
        assert indexed[answerable.relevant_ids[0]].text == answerable.context
        assert indexed["Warsaw#0"].title == "Warsaw"

    def test_a_list_in_json_and_a_limit(self, tmp_path: Path) -> None:
        path = written(tmp_path, "dev.json", [{"question": str(i), "answer": "x"} for i in range(5)])
        assert [example.question for example in load(path, limit=3)] == ["0", "1", "2"]

    def test_unlabelled_questions_are_allowed_when_asked_for(self, tmp_path: Path) -> None:
        path = written(tmp_path, "dev.jsonl", [{"question": "q"}])
        assert "answers" not in load(path, labelled=False)[0]


class TestSplitsNamedInTheFile:
    rows = (
        {"question": "a", "answer": "x", "split": "train"},
        {"question": "b", "answer": "x", "split": "dev"},
    )

    def test_one_is_kept(self, tmp_path: Path) -> None:
        path = written(tmp_path, "q.jsonl", list(self.rows))
        assert [example.question for example in load(path, split="dev")] == ["b"]
        assert len(load(path)) == 2

    def test_another_is_an_error(self, tmp_path: Path) -> None:
        path = written(tmp_path, "q.jsonl", list(self.rows))
        with pytest.raises(ConfigError, match=r"q.jsonl has no rows with split 'test': use dev, train"):
            load(path, split="test")
        path = written(tmp_path, "q.jsonl", [{"question": "a", "answer": "x"}])
        with pytest.raises(ConfigError, match="no row names a split"):
            load(path, split="test")

    def test_the_sample_questions_are_examples(self) -> None:
        examples = from_rows(sample.questions("dev", "zh"), "sample")
        assert {example.split for example in examples} == {"dev"}
        assert [] in [example.answers for example in examples]
        with pytest.raises(ConfigError, match=r"sample item 1: no question"):
            from_rows([{"answers": []}], "sample")


class TestPublicSets:
    def test_popqa_as_published_and_as_the_paper_has_it(self, tmp_path: Path) -> None:
        header = "id\tsubj\tquestion\tpossible_answers\ts_wiki_title"
        published = f'{header}\n1\tX\tWhat does X do?\t["poet", "writer"]\tX (poet)'
        (example,) = load(written(tmp_path, "popqa.tsv", published), format="popqa")
        assert (example.answers, example.document) == (["poet", "writer"], "X (poet)")
        row = {
            "question": "What does X do?",
            "answers": ["poet"],
            "ctxs": [{"title": "X", "text": "A poet."}],
        }
        (example,) = load(written(tmp_path, "popqa.jsonl", [row]), format="popqa")
        assert example.passages == [{"id": "", "title": "X", "url": "", "score": None, "text": "A poet."}]

    @pytest.mark.parametrize(
        ("label", "gold"), [("true", "true"), (0, "false"), (2, "true"), ("REFUTES", "false"), (1, "mixture")]
    )
    def test_pubhealth(self, tmp_path: Path, label: Any, gold: str) -> None:
        path = written(tmp_path, "health.jsonl", [{"claim": "Tea cures colds.", "label": label}])
        (example,) = load(path, format="pubhealth")
        assert (example.question, example.answers) == ("Tea cures colds.", [gold])

    @pytest.mark.parametrize(
        "row",
        [
            {"question": "Q?", "choices": {"text": ["ice", "steam"], "label": ["A", "B"]}, "answerKey": "B"},
            {
                "question": {
                    "stem": "Q?",
                    "choices": [{"text": "ice", "label": "A"}, {"text": "steam", "label": "B"}],
                },
                "answerKey": "B",
            },
        ],
    )
    def test_arc_asks_with_its_options(self, tmp_path: Path, row: dict[str, Any]) -> None:
        (example,) = load(written(tmp_path, "arc.jsonl", [row]), format="arc_challenge")
        assert example.inputs().question == "Q?\nA: ice\nB: steam"
        assert (example.stem, example.answers, example.choices) == ("Q?", ["B"], {"A": "ice", "B": "steam"})

    def test_biography_asks_for_a_life(self, tmp_path: Path) -> None:
        (example,) = load(written(tmp_path, "bio.jsonl", [{"topic": "Marie Curie"}]), format="biography")
        assert (example.question, example.document) == ("Tell me a bio of Marie Curie.", "Marie Curie")

    def test_the_papers_folders(self, tmp_path: Path) -> None:
        written(tmp_path, "questions.txt", "What melts?\nWhat boils?\n")
        written(tmp_path, "choices.txt", "A: ice; or snow; B: steam\nA: x; B: y; C: z\n")
        written(
            tmp_path,
            "retrieved_passages.txt",
            "Ice // Ice melts. [sep] Snow // Snow too.\nWater // It boils.\n",
        )
        first, second = load(tmp_path)
        assert first.choices == {"A": "ice; or snow", "B": "steam"}
        assert first.question == "What melts?\nA: ice; or snow\nB: steam"
        assert [(p["title"], p["text"]) for p in first.passages] == [
            ("Ice", "Ice melts."),
            ("Snow", "Snow too."),
        ]
        assert set(second.choices) == {"A", "B", "C"}

    def test_files_of_a_folder_that_do_not_belong_together_are_refused(self, tmp_path: Path) -> None:
        written(tmp_path, "questions.txt", "What melts?\nWhat boils?\n")
        written(tmp_path, "choices.txt", "A: ice; B: steam\n")
        with pytest.raises(ConfigError, match=r"choices.txt has 1 rows for 2 questions"):
            load(tmp_path)

    def test_by_name_from_hugging_face(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[Any] = []

        def load_dataset(name: str, config: str | None, split: str) -> list[dict[str, Any]]:
            asked.append((name, config, split))
            return [
                {"question": "Q?", "choices": {"text": ["x", "y"], "label": ["A", "B"]}, "answerKey": "A"}
            ]

        library = types.ModuleType("datasets")
        library.load_dataset = load_dataset  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "datasets", library)
        assert load("arc_challenge")[0].stem == "Q?"
        assert load("owner/name:config", split="train")[0].answers == ["A"]
        assert asked == [("allenai/ai2_arc", "ARC-Challenge", "test"), ("owner/name", "config", "train")]

    def test_a_name_without_the_library_or_the_internet_says_what_to_do(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "datasets", None)
        with pytest.raises(ConfigError, match=r"needs the datasets package .*or pass a path"):
            load("popqa")
        library = types.ModuleType("datasets")

        def offline(*_: Any, **__: Any) -> None:
            raise ConnectionError("no route to host")

        library.load_dataset = offline  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "datasets", library)
        with pytest.raises(ConfigError, match=r"no route to host. Offline, pass a path"):
            load("popqa")


class TestMistakes:
    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("d.jsonl", '{"question": "q", "answer": "a"}\n{"question"', "d.jsonl line 2: not JSON"),
            ("d.jsonl", '{"question": "q", "answer": "a"}\n\n[1]', "d.jsonl line 3: a row must be an object"),
            ("d.jsonl", [{"answers": ["a"]}], "line 1: no question or query or claim or input, only answers"),
            ("d.jsonl", [{"qestion": "q", "answers": []}], "is 'qestion' meant to be 'question'?"),
            ("d.jsonl", [{"question": "q", "anwsers": []}], "is 'anwsers' meant to be 'answers'?"),
            ("d.jsonl", [{"question": 3, "answers": []}], "question must be a non-empty text, got 3"),
            ("d.jsonl", [{"question": " ", "answers": []}], "line 1: no question.*question is empty"),
            (
                "d.jsonl",
                [{"question": "q", "answers": ["a", ""]}],
                "answers must hold non-empty texts, got ''",
            ),
            ("d.jsonl", [{"question": "q", "answers": {"x": 1}}], "answers has neither `text` nor `aliases`"),
            ("d.jsonl", [{"question": "q", "answer": "a", "choices": 3}], "line 1: choices must map labels"),
            (
                "d.jsonl",
                [{"question": "q", "answer": "a", "context": ["x"]}],
                "context must be a non-empty text",
            ),
            (
                "d.jsonl",
                [{"question": "q", "answer": "a", "relevant_ids": "p1"}],
                "relevant_ids must be a list",
            ),
            (
                "d.jsonl",
                [{"question": "q", "answer": "a", "passages": [3]}],
                "passages: cannot read a passage",
            ),
            ("d.csv", "question,answer\nq\n", "d.csv line 2: 2 columns expected"),
            ("d.csv", 'question,answer\nq,"a', "d.csv line 2: unexpected end of data"),
            ("d.jsonl", "\n", "holds no examples"),
            ("d.json", {"rows": []}, "d.json must hold a list of objects, or SQuAD's object"),
            ("d.json", {"data": [{"title": "x"}]}, r"data\[0\] has no list `paragraphs`"),
            ("d.json", {"data": [{"paragraphs": [{"context": ""}]}]}, r"data\[0\].paragraphs\[0\].context"),
            ("d.txt", "q", "cannot tell the format of d.txt"),
        ],
    )
    def test_name_the_line_and_the_field(self, tmp_path: Path, name: str, content: Any, message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            load(written(tmp_path, name, content))

    def test_of_the_call(self, tmp_path: Path) -> None:
        path = written(tmp_path, "d.jsonl", [{"question": "q", "answer": "a"}])
        with pytest.raises(ConfigError, match=r"format must be one of .* got 'xml'"):
            load(path, format="xml")
        with pytest.raises(ConfigError, match="limit must be at least 1"):
            load(path, limit=0)
        with pytest.raises(ConfigError, match="there is no file"):
            load(tmp_path / "other.jsonl")
        with pytest.raises(ConfigError, match="'popqaa' is no file, none of popqa"):
            load("popqaa")
        with pytest.raises(ConfigError, match="biography is not on Hugging Face: pass the path"):
            load("biography")
        (tmp_path / "latin.jsonl").write_bytes('{"question": "café", "answer": "a"}'.encode("latin-1"))
        with pytest.raises(ConfigError, match=r"latin.jsonl is not UTF-8 at byte 17"):
            load(tmp_path / "latin.jsonl")


def examples(documents: list[int]) -> list[dspy.Example]:
    return [
        dspy.Example(question=f"q{i}", answers=[], document=str(document)).with_inputs("question")
        for i, document in enumerate(documents)
    ]


SHARES = {"train": 0.5, "dev": 0.25, "test": 0.25}


class TestSplit:
    @given(st.lists(st.integers(0, 30), min_size=40, max_size=120), st.integers(0, 3))
    def test_no_document_is_on_two_sides_and_nothing_is_lost(self, documents: list[int], seed: int) -> None:
        data = examples(documents)
        if len(set(documents)) < 8:
            return
        parts = split(data, SHARES, seed=seed)
        sides = [{example.document for example in part} for part in parts.values()]
        assert not sides[0] & sides[1] | sides[0] & sides[2] | sides[1] & sides[2]
        assert sorted(e.question for part in parts.values() for e in part) == sorted(e.question for e in data)
        largest = max(documents.count(document) for document in documents)
        for name, share in SHARES.items():
            assert abs(len(parts[name]) - share * len(data)) <= largest

    def test_the_seed_decides_and_the_order_of_the_file_does_not(self) -> None:
        data = examples([i % 20 for i in range(100)])

        def documents(data: list[dspy.Example], seed: int) -> set[str]:
            return {example.document for example in split(data, SHARES, seed=seed)["test"]}

        assert documents(data, 0) == documents(data[::-1], 0)
        assert documents(data, 0) != documents(data, 1)

    def test_shares_below_one_leave_questions_out(self) -> None:
        parts = split(examples(list(range(100))), {"dev": 0.2, "test": 0.3})
        assert (len(parts["dev"]), len(parts["test"])) == (20, 30)

    def test_a_repeated_question_stays_on_one_side(self) -> None:
        data = [
            dspy.Example(question=f"Who is {i % 10}?", answers=[]).with_inputs("question") for i in range(40)
        ]
        parts = split(data, {"train": 0.5, "test": 0.5})
        assert not {e.question for e in parts["train"]} & {e.question for e in parts["test"]}

    @pytest.mark.parametrize("shares", [{}, {"a": 0.0}, {"a": 0.7, "b": 0.7}, {"a": -0.1}])
    def test_bad_shares(self, shares: dict[str, float]) -> None:
        with pytest.raises(ConfigError, match="shares must be in"):
            split(examples([1, 2, 3]), shares)

    def test_too_few_documents(self) -> None:
        with pytest.raises(
            ConfigError, match="1 groups by 'document' cannot be split into 2 parts: use by=None"
        ):
            split(examples([1, 1, 1]), {"a": 0.5, "b": 0.5})
        assert [len(part) for part in split(examples([1] * 4), {"a": 0.5, "b": 0.5}, by=None).values()] == [
            2,
            2,
        ]


@pytest.mark.parametrize(("suffix", "delimiter"), [("csv", ","), ("tsv", "\t")])
@pytest.mark.parametrize("inside", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "x" * 200_000, "\n"])
def test_a_cell_holds_whatever_it_holds(tmp_path: Path, suffix: str, delimiter: str, inside: str) -> None:
    cell = f"When did it{inside}open?"
    quoted = f'"{cell}"' if inside == "\n" else cell
    path = tmp_path / f"questions.{suffix}"
    path.write_bytes(
        f"question{delimiter}answers\r\n{quoted}{delimiter}1931\r\nWho?{delimiter}Li\r\n".encode()
    )
    assert [example.question for example in load(str(path))] == [cell, "Who?"]
