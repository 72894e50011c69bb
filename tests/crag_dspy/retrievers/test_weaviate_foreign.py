"""Collections that people already have, and ours as people misuse them: one message that names the argument."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from typing import Any

import pytest

from crag_dspy.errors import ConfigError, CragError, IndexMismatchError, RetrieverError
from crag_dspy.passages import Passage
from crag_dspy.retrievers.weaviate import WeaviateRetriever
from crag_dspy.retrievers.weaviate_collection import create_collection
from crag_dspy.retrievers.weaviate_import import import_passages

Ask = Callable[..., list[Passage]]


@pytest.fixture(params=["sync", "async"])
def ask(request: pytest.FixtureRequest) -> Ask:
    def sync(retriever: WeaviateRetriever, query: str = "water") -> list[Passage]:
        return retriever(query, 5)

    def awaited(retriever: WeaviateRetriever, query: str = "water") -> list[Passage]:
        return asyncio.run(retriever.acall(query, 5))

    return sync if request.param == "sync" else awaited


@pytest.fixture
def store(protocol_place: Any) -> Iterator[Callable[..., WeaviateRetriever]]:
    stores: list[WeaviateRetriever] = []

    def make(**options: Any) -> WeaviateRetriever:
        given = {"grpc_port": protocol_place.grpc_port, "mode": "bm25", "timeout": 60.0, **options}
        stores.append(WeaviateRetriever.from_url(protocol_place.url, "Docs", **given))
        return stores[-1]

    yield make
    for one in stores:
        one.close()


@pytest.fixture
def theirs(protocol_place: Any) -> Callable[..., None]:
    """Makes the collection as another program would."""
    from weaviate.classes.config import DataType, Property

    def make(
        kinds: dict[str, str], *objects: dict[str, Any], vectors: Any = None, **searchable: bool
    ) -> None:
        client = protocol_place.client()
        properties = [
            Property(name=name, data_type=DataType(kind), index_searchable=searchable.get(name))
            for name, kind in kinds.items()
        ]
        collection = client.collections.create("Docs", properties=properties, vector_config=vectors)
        if objects:
            collection.data.insert_many(list(objects))
        client.close()

    return make


# Filters.


def teams(store: Any) -> WeaviateRetriever:
    retriever = store()
    create_collection(retriever, properties={"team": "text", "on": "date", "rating": "number"})
    rows = {"red": "red", "not": "not red", "c": "C", "cpp": "C++", "the": "the"}
    import_passages(
        retriever,
        [
            Passage("Water boils.", id=name, metadata={"team": team, "on": date(2024, 2, 29), "rating": 2.0})
            for name, team in rows.items()
        ],
    )
    return retriever


@pytest.mark.parametrize(
    ("team", "found"), [("red", {"red"}), ("C", {"c"}), ("the", {"the"}), ("C++", {"cpp"})]
)
def test_a_filter_on_our_own_text_is_exact(store: Any, ask: Ask, team: str, found: set[str]) -> None:
    assert {one.id for one in ask(teams(store).with_filters({"team": team}))} == found


@pytest.mark.parametrize(
    "filters",
    [
        {"on": date(2024, 2, 29)},
        {"on": datetime(2024, 2, 29)},
        {"on": datetime(2024, 2, 29, tzinfo=UTC)},
        {"on": "2024-02-29T00:00:00Z"},
        {"on": "2024-02-29"},
        {"rating": 2},
    ],
)
def test_dates_and_numbers_of_filters_are_converted(store: Any, ask: Ask, filters: Any) -> None:
    assert len(ask(teams(store).with_filters(filters))) == 5


def test_a_filter_on_a_property_that_is_cut_into_words_is_warned_of(
    store: Any, theirs: Any, ask: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    theirs({"text": "text", "team": "text"}, {"text": "Water.", "team": "not red"})
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            ask(store(filters={"team": "red"}))
    assert caplog.text.count("is cut into words (word)") >= 1


# What is not there.


def test_title_url_and_id_are_optional_with_metadata_too(store: Any, theirs: Any, ask: Ask) -> None:
    theirs({"text": "text", "year": "int"}, {"text": "Water boils.", "year": 1999})
    (found,) = ask(store(metadata=["year"]))
    assert (found.title, found.url, found.metadata) == ("", "", {"year": 1999})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"text_property": "body"}, "text_property="),
        ({"metadata": ["pages"]}, "metadata="),
        ({"query_properties": ["text^2", "abstract"]}, "'abstract'.*query_properties="),
        ({"query_properties": ["hidden"]}, "not searched by words.*query_properties="),
        ({"text_property": "hidden"}, "not searched by words.*text_property="),
    ],
)
@pytest.mark.parametrize("filled", [True, False], ids=["filled", "empty"])
def test_a_wrong_property_is_named_with_its_argument(
    store: Any, theirs: Any, ask: Ask, options: dict[str, Any], said: str, filled: bool
) -> None:
    objects = [{"text": "Water boils.", "hidden": "Water."}] if filled else []
    theirs({"text": "text", "hidden": "text"}, *objects, hidden=False)
    with pytest.raises(RetrieverError, match=said):
        ask(store(**options))


def test_a_text_that_is_empty_everywhere(store: Any, theirs: Any, ask: Ask) -> None:
    theirs({"text": "text", "title": "text"}, {"title": "Water"}, {"title": "Water too"})
    with pytest.raises(RetrieverError, match=r"'text'.*empty in all objects.*text_property="):
        ask(store())


def test_several_vectors_without_a_name(store: Any, theirs: Any, ask: Ask, toy_embedder: Any) -> None:
    from weaviate.classes.config import Configure

    theirs(
        {"text": "text"},
        vectors=[Configure.Vectors.self_provided(name="body"), Configure.Vectors.self_provided(name="head")],
    )
    for mode in ("near_vector", "hybrid"):
        with pytest.raises(RetrieverError, match=r"body, head.*vector_name="):
            ask(store(mode=mode, embedder=toy_embedder))
    with pytest.raises(RetrieverError, match="change vector_name="):
        ask(store(mode="near_vector", embedder=toy_embedder, vector_name="tail"))


def test_no_vectors_at_all(store: Any, theirs: Any, ask: Ask, toy_embedder: Any) -> None:
    theirs({"text": "text"}, {"text": "Water boils."})
    with pytest.raises(RetrieverError, match=r"no vectors: .*mode=\"bm25\""):
        ask(store(mode="near_vector", embedder=toy_embedder))


def test_an_empty_collection_finds_nothing(store: Any, ask: Ask, toy_embedder: Any) -> None:
    retriever = store(mode="near_vector", embedder=toy_embedder)
    create_collection(retriever)
    assert ask(retriever) == []


def test_places_and_phone_numbers_are_mappings() -> None:
    from weaviate.classes.data import GeoCoordinate

    from crag_dspy.retrievers.weaviate_objects import as_json_value

    assert as_json_value(GeoCoordinate(latitude=52.5, longitude=13.4)) == {
        "latitude": 52.5,
        "longitude": 13.4,
    }


def test_what_llamaindex_keeps_for_itself_is_neither_searched_nor_returned(
    store: Any, theirs: Any, ask: Ask
) -> None:
    theirs(
        {"text": "text", "_node_content": "text", "year": "int"},
        {"text": "Water boils.", "_node_content": '{"planted": 1}', "year": 1999},
    )
    assert ask(store(), "planted") == []
    assert ask(store(), "water")[0].metadata == {"year": 1999}


# Embedders.


def test_the_collection_remembers_its_embedder(store: Any, ask: Ask, toy_embedder: Any) -> None:
    ours = store(mode="hybrid", embedder=toy_embedder)
    create_collection(ours)
    import_passages(ours, [Passage("Water boils.", id="a")])
    assert ask(ours)[0].id == "a"
    with pytest.raises(CragError, match="pass embedder="):
        ask(store(mode="hybrid"))

    def longer(texts: list[str]) -> Any:
        return [[*row, 1.0] for row in toy_embedder(texts)]

    def another(texts: list[str]) -> Any:
        return [row[::-1] for row in toy_embedder(texts)]

    with pytest.raises(IndexMismatchError, match=r"32 dimensions.*33.*embedder="):
        ask(store(mode="hybrid", embedder=longer))
    with pytest.raises(IndexMismatchError, match=r"elsewhere.*embedder="):
        ask(store(mode="near_vector", embedder=another))
    with pytest.raises(ConfigError, match="embedder="):
        import_passages(store(embedder=another), [Passage("Lead.", id="b")])
    assert ask(store())[0].id == "a", "words need no embedder"


# Chinese, English, both.


@pytest.mark.parametrize("lacks", [{"gse"}, {"gse", "gse_ch"}], ids=["gse_ch", "trigram"])
def test_both_scripts_are_found_by_words(store: Any, weaviate_server: Any, ask: Ask, lacks: set[str]) -> None:
    weaviate_server.lacks = lacks
    retriever = store()
    create_collection(retriever)
    import_passages(
        retriever,
        [Passage("水在一百度沸腾。", id="zh", title="水"), Passage("Lead melts at low heat.", id="en")],
    )
    (found,) = ask(retriever, "水什么时候沸腾？" if lacks == {"gse"} else "水在一百度吗")
    assert (found.id, found.metadata) == ("zh", {})
    assert [one.id for one in ask(retriever, "what melts")] == ["en"]
    asked = weaviate_server.asked[-1].request.bm25_search
    assert "text_unspaced" not in asked.properties
    assert import_passages(retriever, [Passage("Lead melts at low heat.", id="en")]).unchanged == 1


@pytest.mark.parametrize(
    ("tokenization", "text", "warned"),
    [
        ("word", "水在一百度沸腾。", True),
        ("gse_ch", "Water boils at heat.", True),
        ("both", "水在一百度沸腾。", False),
    ],
)
def test_a_script_that_the_tokenization_does_not_serve_is_warned_of_once(
    store: Any, ask: Ask, caplog: pytest.LogCaptureFixture, tokenization: str, text: str, warned: bool
) -> None:
    retriever = store()
    create_collection(retriever, tokenization=tokenization)
    with caplog.at_level(logging.WARNING):
        import_passages(retriever, [Passage(text, id="a"), Passage(text + " ", id="b")])
        assert caplog.text.count("the tokenization 'both'") == int(warned)
        caplog.clear()
        ask(retriever, text)
        ask(retriever, text)
    assert caplog.text.count("the tokenization 'both'") == int(warned)
