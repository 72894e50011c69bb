"""Making collections and importing: resumable, idempotent, and nothing lost in silence."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from crag_dspy.errors import ConfigError, RetrieverError
from crag_dspy.passages import Passage
from crag_dspy.retrievers.embedders import PROBES
from crag_dspy.retrievers.local import LocalIndex
from crag_dspy.retrievers.weaviate import WeaviateRetriever
from crag_dspy.retrievers.weaviate_collection import create_collection
from crag_dspy.retrievers.weaviate_import import (
    BATCH_CHARS,
    FailedPassage,
    ImportInterruptedError,
    import_passages,
)
from crag_dspy.retrievers.weaviate_objects import object_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MANY = [Passage(f"Fact number{number} of many.", id=f"fact-{number}") for number in range(50)]


@pytest.fixture
def store(place: Any, fresh_name: str) -> Iterator[Callable[..., WeaviateRetriever]]:
    made: list[WeaviateRetriever] = []

    def make(**options: Any) -> WeaviateRetriever:
        given = {"mode": "bm25", "grpc_port": place.grpc_port, "backoff": 0.0, "timeout": 60.0, **options}
        made.append(WeaviateRetriever.from_url(place.url, fresh_name, **given))
        return made[-1]

    yield make
    for retriever in made:
        retriever.close()


@pytest.fixture
def made(store: Callable[..., WeaviateRetriever]) -> WeaviateRetriever:
    retriever = store()
    assert create_collection(retriever, properties={"year": "int"})
    return retriever


def everything(retriever: WeaviateRetriever, query: str = "fact of many") -> dict[str, str]:
    return {passage.id: passage.text for passage in retriever(query, 200)}


# Collections.


def test_a_collection_is_made_once_and_never_changed(made: WeaviateRetriever, place: Any) -> None:
    client = place.client()
    before = client.collections.get(made.collection).config.get()
    assert not create_collection(made, properties={"other": "text"}, tokenization="trigram")
    assert client.collections.get(made.collection).config.get() == before
    assert [prop.name for prop in before.properties] == [
        "text",
        "title",
        "text_unspaced",
        "title_unspaced",
        "url",
        "passage_id",
        "metadata_json",
        "year",
    ]
    client.close()


def test_sharding_and_replication_are_asked_for(weaviate_server: Any) -> None:
    retriever = WeaviateRetriever.from_url(
        weaviate_server.url, "Sharded", grpc_port=weaviate_server.grpc_port
    )
    create_collection(retriever, shards=3, replicas=3, tokenization="gse_ch")
    schema = weaviate_server.collections["Sharded"].schema
    assert schema["shardingConfig"]["desiredCount"] == 3
    assert schema["replicationConfig"]["factor"] == 3
    assert {prop["tokenization"] for prop in schema["properties"][:2]} == {"gse_ch"}
    retriever.close()


def test_a_tokenizer_that_the_server_lacks_is_said(weaviate_server: Any) -> None:
    retriever = WeaviateRetriever.from_url(weaviate_server.url, "Docs", grpc_port=weaviate_server.grpc_port)
    with pytest.raises(RetrieverError, match=r"ENABLE_TOKENIZER_GSE.*another tokenization"):
        create_collection(retriever, tokenization="gse")
    assert weaviate_server.collections == {}
    retriever.close()


def test_two_that_make_it_at_once_agree(weaviate_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from weaviate.collections.collections.sync import _Collections

    retriever = WeaviateRetriever.from_url(weaviate_server.url, "Raced", grpc_port=weaviate_server.grpc_port)
    create_collection(retriever)
    answers = iter([False, True])  # the other process made it between the question and the request
    monkeypatch.setattr(_Collections, "exists", lambda self, name: next(answers))
    assert not create_collection(retriever)
    retriever.close()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"tenants": True, "shards": 3}, "shards or tenants"),
        ({"shards": 0}, "shards"),
        ({"replicas": True}, "replicas"),
        ({"tokenization": "letters"}, "tokenization"),
        ({"properties": {"year": "integer"}}, "year"),
    ],
)
def test_a_bad_argument_is_named(weaviate_server: Any, options: dict[str, Any], named: str) -> None:
    retriever = WeaviateRetriever.from_url(
        weaviate_server.url, "Articles", grpc_port=weaviate_server.grpc_port
    )
    with pytest.raises(ConfigError, match=named):
        create_collection(retriever, **options)
    assert weaviate_server.collections == {}
    retriever.close()


# Importing.


def test_an_import_runs_in_batches_and_again_changes_nothing(made: WeaviateRetriever, place: Any) -> None:
    first = import_passages(made, iter(MANY), batch=20)
    assert (first.written, first.unchanged, first.failed) == (50, 0, [])
    assert everything(made) == {passage.id: passage.text for passage in MANY}
    again = import_passages(made, MANY, batch=20)
    assert (again.written, again.unchanged) == (0, 50)
    if place.server is not None:
        batches = [len(one.request.objects) for one in place.server.asked if one.method == "BatchObjects"]
        assert batches == [20, 20, 10]


def test_an_import_that_was_interrupted_goes_on(made: WeaviateRetriever) -> None:
    def interrupted() -> Iterator[Passage]:
        yield from MANY[:25]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_passages(made, interrupted(), batch=10)
    assert len(everything(made)) == 20, "whole batches are stored"
    report = import_passages(made, MANY, batch=10)
    assert (report.written, report.unchanged) == (30, 20)
    assert len(everything(made)) == 50


def test_a_fault_that_passes_does_not_show(made: WeaviateRetriever, place: Any) -> None:
    if place.server is None:
        pytest.skip("only the protocol server fails on request")
    place.server.fail("BatchObjects", grpc.StatusCode.RESOURCE_EXHAUSTED)
    place.server.fail("Search", grpc.StatusCode.ABORTED)
    assert import_passages(made, MANY).written == 50


def test_a_fault_that_lasts_says_how_far_it_came(made: WeaviateRetriever, place: Any) -> None:
    if place.server is None:
        pytest.skip("only the protocol server fails on request")

    def failing() -> Iterator[Passage]:
        for number, passage in enumerate(MANY):
            if number == 20:
                place.server.fail("BatchObjects", grpc.StatusCode.INTERNAL, "disk full")
            yield passage

    with pytest.raises(ImportInterruptedError, match=r"disk full.*20 passages are stored.*again") as caught:
        import_passages(made, failing(), batch=10)
    assert isinstance(caught.value, RetrieverError)
    assert caught.value.report.written == 20
    assert import_passages(made, MANY).unchanged == 20


def test_a_refused_passage_is_listed_and_stops_no_other(made: WeaviateRetriever) -> None:
    bad = Passage("A fact of many.", id="bad", metadata={"year": "soon"})
    report = import_passages(made, [*MANY[:3], bad, *MANY[3:6]])
    assert report.written == 6
    assert [failed.id for failed in report.failed] == ["bad"]
    assert "year" in report.failed[0].error
    assert "bad" not in everything(made)


def test_all_refused_are_all_listed(made: WeaviateRetriever) -> None:
    bad = [Passage(f"Fact {number}.", id=f"bad-{number}", metadata={"year": "soon"}) for number in range(3)]
    report = import_passages(made, bad)
    assert report.written == 0
    assert [failed.id for failed in report.failed] == ["bad-0", "bad-1", "bad-2"]
    assert all("year" in failed.error for failed in report.failed)


def test_a_changed_passage_replaces_itself(made: WeaviateRetriever) -> None:
    import_passages(made, MANY[:3])
    changed = replace(MANY[1], text="Another fact of many.")
    report = import_passages(made, [MANY[0], changed])
    assert (report.written, report.unchanged) == (1, 1)
    assert everything(made) == {MANY[0].id: MANY[0].text, MANY[1].id: changed.text, MANY[2].id: MANY[2].text}


def test_a_passage_without_an_id_is_known_by_its_content(made: WeaviateRetriever) -> None:
    plain = [Passage("Fact one of many."), Passage("Fact two of many."), Passage("Fact one of many.")]
    report = import_passages(made, plain)
    assert (report.written, report.unchanged) == (2, 1)
    assert import_passages(made, plain).unchanged == 3
    assert set(everything(made)) == {str(object_id(passage)) for passage in plain}


def test_two_passages_with_one_id_are_reported(made: WeaviateRetriever) -> None:
    twin = replace(MANY[0], text="Another fact of many.")
    report = import_passages(made, [MANY[0], MANY[1], twin], batch=2)
    assert report.written == 2
    assert report.failed == [FailedPassage("fact-0", "another passage of this import has the id")]


def test_an_id_that_is_a_uuid_stays(made: WeaviateRetriever, place: Any) -> None:
    own = str(uuid.uuid4())
    import_passages(made, [Passage("A fact of many.", id=own)])
    client = place.client()
    (found,) = client.collections.get(made.collection).query.fetch_objects_by_ids([own]).objects
    assert str(found.uuid) == own
    client.close()


def test_metadata_comes_back_as_it_was(made: WeaviateRetriever) -> None:
    metadata = {
        "year": 2024,
        "pages": [1, 2],
        "by": {"name": "Ada", "born": 1815},
        "draft": False,
        "note": "深",
    }
    report = import_passages(made, [Passage("A fact of many.", id="a", title="事实", metadata=metadata)])
    assert report.left_out == set()
    (found,) = made("fact", 1)
    assert (found.title, found.metadata) == ("事实", metadata)
    (filtered,) = made.with_filters({"year": 2024})("fact", 1)
    assert filtered.id == "a"


def test_long_texts_make_small_batches(weaviate_server: Any) -> None:
    retriever = WeaviateRetriever.from_url(weaviate_server.url, "Long", grpc_port=weaviate_server.grpc_port)
    create_collection(retriever)
    long = [Passage("x" * (BATCH_CHARS // 2), id=str(number)) for number in range(3)]
    assert import_passages(retriever, long).written == 3
    batches = [len(one.request.objects) for one in weaviate_server.asked if one.method == "BatchObjects"]
    assert batches == [2, 1]
    retriever.close()


# Collections of others, and tenants.


def test_a_collection_of_others_gets_no_property(store: Any, place: Any, fresh_name: str) -> None:
    from weaviate.classes.config import DataType, Property

    client = place.client()
    client.collections.create(
        fresh_name, properties=[Property(name=name, data_type=DataType.TEXT) for name in ("body", "lang")]
    )
    before = client.collections.get(fresh_name).config.get()
    theirs = store(text_property="body")
    passage = Passage("A fact of many.", id="a", title="Lost", metadata={"lang": "en", "year": 2024})
    report = import_passages(theirs, [passage])
    assert (report.written, report.left_out) == (1, {"year"})
    (found,) = theirs("fact", 1)
    assert (found.text, found.title, found.metadata) == ("A fact of many.", "", {"lang": "en"})
    assert client.collections.get(fresh_name).config.get() == before
    client.close()


def test_a_collection_without_the_text_property_is_named(made: WeaviateRetriever) -> None:
    with pytest.raises(ConfigError, match=r"no property 'body' .*text, .*title.*text_property="):
        import_passages(replace(made, text_property="body"), MANY)


def test_a_missing_collection_is_not_made_by_an_import(store: Any) -> None:
    with pytest.raises(ConfigError, match="create_collection"):
        import_passages(store(), MANY)


def test_a_missing_tenant_is_made(store: Any) -> None:
    acme = store(tenant="acme")
    create_collection(acme, tenants=True)
    assert import_passages(acme, MANY[:2]).written == 2
    assert import_passages(acme.with_tenant("globex"), MANY[:1]).written == 1
    assert len(everything(acme)) == 2
    assert len(everything(acme.with_tenant("globex"))) == 1


def test_tenants_where_there_are_none_and_none_where_there_are(made: WeaviateRetriever, store: Any) -> None:
    with pytest.raises(ConfigError, match="has no tenants"):
        import_passages(made.with_tenant("acme"), MANY)


def test_an_import_without_its_tenant_is_refused(store: Any) -> None:
    acme = store(tenant="acme")
    create_collection(acme, tenants=True)
    with pytest.raises(ConfigError, match="pass tenant="):
        import_passages(acme.with_tenant(None), MANY)


# Vectors.


def test_given_vectors_are_used_and_others_are_made(store: Any, toy_embedder: Any) -> None:
    embedded: list[str] = []

    def embed(texts: list[str]) -> Any:
        embedded.extend(texts)
        return toy_embedder(texts)

    retriever = store(mode="near_vector", embedder=embed)
    create_collection(retriever)
    lead, tin = Passage("Lead melts.", id="lead", title="Metal"), Passage("Tin melts.", id="tin")
    import_passages(retriever, [(lead, toy_embedder(["zebra stripes"])[0]), (tin, None)])
    assert [text for text in embedded if text not in PROBES] == ["Tin melts."], (
        "the title belongs to the text, and this one has none"
    )
    assert retriever("zebra stripes", 1)[0].id == "lead"
    assert retriever("tin melts", 1)[0].id == "tin"


def test_overwriting_gives_vectors_to_what_had_none(store: Any, toy_embedder: Any) -> None:
    words = store()
    create_collection(words)
    import_passages(words, MANY[:3])
    vectors = store(mode="near_vector", embedder=toy_embedder)
    assert import_passages(vectors, MANY[:3]).unchanged == 3
    assert import_passages(vectors, MANY[:3], overwrite=True).written == 3
    assert vectors(MANY[2].text, 1)[0].id == "fact-2"


def test_a_local_index_moves_over(store: Any, toy_embedder: Any, tmp_path: Path) -> None:
    documents = [
        Passage(
            "Water boils at 100 degrees.",
            id="water",
            title="Water",
            url="https://a.org",
            metadata={"year": 2020},
        ),
        Passage("Lead melts at 327 degrees.", id="lead", title="Lead"),
    ]
    index = LocalIndex.create(tmp_path / "index", toy_embedder)
    index.add(documents)

    def no_embedding(texts: list[str]) -> Any:
        assert texts == list(PROBES), "the index brings its vectors"
        return toy_embedder(texts)

    target = store(mode="near_vector", embedder=no_embedding)
    create_collection(target, properties={"year": "int"})
    assert import_passages(target, index.passages_with_vectors()).written == 2
    moved = store(mode="near_vector", embedder=toy_embedder)
    for query in ("boiling water degrees", "lead melts"):
        here, there = index(query, 1)[0], moved(query, 1)[0]
        assert (there.id, there.text, there.title, there.url) == (here.id, here.text, here.title, here.url)
    assert moved("water boils", 1)[0].metadata["year"] == 2020


# Arguments and output.


@pytest.mark.parametrize("item", ["text", {"text": "x"}, None, ("text", [1.0])])
def test_what_is_no_passage_is_named(made: WeaviateRetriever, item: Any) -> None:
    with pytest.raises(ConfigError, match=r"passages\[1\]"):
        import_passages(made, [MANY[0], item])


def test_progress_goes_to_stderr(made: WeaviateRetriever, capsys: pytest.CaptureFixture[str]) -> None:
    import_passages(made, MANY[:5], progress=True, total=5)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "5/5" in shown.err
    import_passages(made, MANY[:5], progress=False)
    assert "importing" not in capsys.readouterr().err
