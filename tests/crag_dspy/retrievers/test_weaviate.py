"""`WeaviateRetriever`: what it finds, in whose data, and on whose connection.

Tests that take `place` also run against a true Weaviate when CRAG_TEST_WEAVIATE_URL names one.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import pickle
import threading
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from crag_dspy.contracts import Retriever
from crag_dspy.errors import ConfigError, RetrieverError
from crag_dspy.passages import Passage
from crag_dspy.retrievers.weaviate import WeaviateRetriever
from crag_dspy.retrievers.weaviate_collection import create_collection
from crag_dspy.retrievers.weaviate_import import import_passages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

WATER = Passage(
    "Water boils at 100 degrees.",
    id="water",
    title="Water",
    url="https://a.org/water",
    metadata={"lang": "en", "year": 2020},
)
LEAD = Passage(
    "Lead melts at 327 degrees.",
    id="lead",
    title="Lead",
    url="https://a.org/lead",
    metadata={"lang": "en", "year": 2024},
)
BLEI = Passage(
    "Blei schmilzt bei 327 Grad.",
    id="blei",
    title="Blei",
    metadata={"lang": "de", "year": 2024, "pages": [3, 4], "by": {"name": "Ada"}},
)
PASSAGES = [WATER, LEAD, BLEI]

Ask = Any  # (retriever, query, k) -> passages


@pytest.fixture(params=["sync", "async"])
def ask(request: pytest.FixtureRequest) -> Ask:
    def sync(retriever: WeaviateRetriever, query: str, k: int = 10) -> list[Passage]:
        return retriever(query, k)

    def awaited(retriever: WeaviateRetriever, query: str, k: int = 10) -> list[Passage]:
        return asyncio.run(retriever.acall(query, k))

    return sync if request.param == "sync" else awaited


@pytest.fixture
def store(place: Any, fresh_name: str, toy_embedder: Any) -> Iterator[Callable[..., WeaviateRetriever]]:
    made: list[WeaviateRetriever] = []

    def make(**options: Any) -> WeaviateRetriever:
        given = {
            "embedder": toy_embedder,
            "grpc_port": place.grpc_port,
            "backoff": 0.0,
            "timeout": 60.0,
            **options,
        }
        made.append(WeaviateRetriever.from_url(place.url, fresh_name, **given))
        return made[-1]

    yield make
    for retriever in made:
        retriever.close()


@pytest.fixture
def filled(store: Callable[..., WeaviateRetriever]) -> WeaviateRetriever:
    retriever = store()
    create_collection(retriever, properties={"lang": "text", "year": "int"})
    assert import_passages(retriever, PASSAGES).written == 3
    return retriever


def ids(passages: list[Passage]) -> list[str]:
    return [passage.id for passage in passages]


# Searching.


def test_it_is_a_retriever(store: Any) -> None:
    assert isinstance(store(), Retriever)


@pytest.mark.parametrize("mode", ["hybrid", "bm25", "near_vector"])
def test_every_mode_finds_the_passage(filled: WeaviateRetriever, ask: Ask, mode: Any) -> None:
    found = ask(replace(filled, mode=mode), "at how many degrees does water boil", 2)
    assert found[0].id == "water"
    assert len(found) <= 2
    assert found[0].score is not None
    assert found[0].score > 0


def test_near_text_asks_the_servers_vectorizer(store: Any, place: Any, ask: Ask) -> None:
    from weaviate.classes.config import Configure

    client = place.client()
    vectorizers = {"text2vec-toy", "text2vec-model2vec", "text2vec-transformers"} & set(
        client.get_meta()["modules"]
    )
    client.close()
    if not vectorizers:
        pytest.skip("this Weaviate has no local vectorizer")
    module = vectorizers.pop()
    made = {
        "text2vec-model2vec": Configure.Vectors.text2vec_model2vec,
        "text2vec-transformers": Configure.Vectors.text2vec_transformers,
    }.get(module, lambda: Configure.Vectors.custom(module_name=module))
    retriever = store(mode="near_text", embedder=None)
    create_collection(retriever, vectors=made())
    import_passages(retriever, PASSAGES)
    assert ids(ask(retriever, "boiling water boils", 1)) == ["water"]


def test_alpha_weighs_words_against_vectors(filled: WeaviateRetriever, ask: Ask) -> None:
    words = ask(replace(filled, alpha=0.0), "schmilzt", 3)
    assert ids(words) == ["blei"]
    vectors = ask(replace(filled, alpha=1.0), "schmilzt", 3)
    assert vectors[0].id == "blei"
    assert len(vectors) == 3 or vectors[0].score is not None


class ReadsEnglish:
    """An embedder that knows which scripts it was not made for, and puts every other text in one place."""

    name, spec = "english", None

    def embed(self, texts: Sequence[str]) -> Any:
        return np.ones((len(texts), 4), dtype=np.float32) / 2

    def embed_query(self, query: str) -> Any:
        return self.embed([query])[0]

    def reads(self, text: str) -> bool:
        return text.isascii()


@pytest.mark.parametrize(("query", "method"), [("water", "hybrid_search"), ("水", "bm25_search")])
def test_a_query_that_the_embedder_cannot_read_is_searched_by_words(
    store: Any, place: Any, ask: Ask, query: str, method: str
) -> None:
    retriever = store(embedder=ReadsEnglish())
    create_collection(retriever)
    import_passages(retriever, [Passage("Water boils.", id="en"), Passage("水 在 一百 度 沸腾", id="zh")])
    found = ids(ask(retriever, query, 2))
    assert found[0] == ("en" if query.isascii() else "zh")
    if place.server is not None:
        asked = [one.request for one in place.server.asked if one.method == "Search"][-1]
        assert asked.HasField(method)


def test_a_passage_keeps_everything(filled: WeaviateRetriever, ask: Ask) -> None:
    (found,) = ask(replace(filled, mode="bm25"), "schmilzt")
    assert found == replace(BLEI, score=found.score)
    (found,) = ask(replace(filled, mode="bm25"), "boils")
    assert found == replace(WATER, score=found.score)


def test_near_vector_scores_by_the_cosine(filled: WeaviateRetriever, ask: Ask) -> None:
    found = ask(replace(filled, mode="near_vector"), f"{WATER.title}\n{WATER.text}", 1)
    assert found[0].id == "water"
    assert found[0].score == pytest.approx(1.0, abs=1e-4)
    assert found[0].metadata["distance"] == pytest.approx(0.0, abs=1e-4)


def test_fewer_when_there_are_no_more(filled: WeaviateRetriever, ask: Ask) -> None:
    assert len(ask(replace(filled, mode="near_vector"), "degrees", 50)) == 3
    assert ask(replace(filled, mode="bm25"), "zebra", 5) == []


def test_an_empty_query_finds_nothing(filled: WeaviateRetriever, ask: Ask) -> None:
    assert ask(filled, " \n") == []


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"lang": "de"}, {"blei"}),
        ({"year": 2024}, {"lead", "blei"}),
        ({"lang": ["de", "fr"], "year": 2024}, {"blei"}),
        ({"year": [2020, 2024], "lang": "en"}, {"water", "lead"}),
        ({}, {"water", "lead", "blei"}),
    ],
)
def test_filters_are_plain_data(
    filled: WeaviateRetriever, ask: Ask, filters: dict[str, Any], expected: set[str]
) -> None:
    everything = replace(filled, mode="near_vector").with_filters(filters)
    assert set(ids(ask(everything, "degrees"))) == expected


def test_filters_may_be_weaviates_own(filled: WeaviateRetriever, ask: Ask) -> None:
    from weaviate.classes.query import Filter

    newer = Filter.by_property("year").greater_than(2021)
    assert set(ids(ask(replace(filled, mode="near_vector", filters=newer), "degrees"))) == {"lead", "blei"}


def test_words_are_looked_for_in_the_properties_named(filled: WeaviateRetriever, ask: Ask) -> None:
    in_titles = replace(filled, mode="bm25", query_properties=["title"])
    assert ask(in_titles, "degrees") == []
    assert ids(ask(in_titles, "lead")) == ["lead"]


def test_a_named_vector_is_searched(store: Any, ask: Ask) -> None:
    retriever = store(mode="near_vector", vector_name="body")
    create_collection(retriever)
    import_passages(retriever, PASSAGES)
    assert ask(retriever, "Blei Blei schmilzt bei Grad", 1)[0].id == "blei"


# A collection that somebody else made.


@pytest.fixture
def foreign(place: Any, fresh_name: str) -> str:
    from weaviate.classes.config import Configure, DataType, Property

    kinds = {
        "body": DataType.TEXT,
        "headline": DataType.TEXT,
        "link": DataType.TEXT,
        "tags": DataType.TEXT_ARRAY,
        "written": DataType.DATE,
        "rating": DataType.NUMBER,
        "free": DataType.BOOL,
    }
    client = place.client()
    collection = client.collections.create(
        fresh_name,
        properties=[Property(name=name, data_type=kind) for name, kind in kinds.items()],
        vector_config=Configure.Vectors.self_provided(),
    )
    tin = {
        "body": "Tin melts early.",
        "headline": "Tin",
        "link": "https://b.org",
        "tags": ["metal", "soft"],
        "written": datetime(2026, 3, 2, 10, tzinfo=UTC),
        "rating": 4.5,
        "free": True,
    }
    others = [{"body": "", "headline": "Empty"}, {"body": "Gold melts late.", "headline": None}]
    collection.data.insert_many([tin, *others])
    client.close()
    return fresh_name


def test_the_user_names_the_properties(store: Any, foreign: str, ask: Ask) -> None:
    retriever = store(
        mode="bm25", text_property="body", title_property="headline", url_property="link", id_property=None
    )
    (found,) = ask(retriever, "tin")
    assert (found.text, found.title, found.url) == ("Tin melts early.", "Tin", "https://b.org")
    assert uuid.UUID(found.id).version == 4
    written = found.metadata["written"]
    assert found.metadata == {"tags": ["metal", "soft"], "written": written, "rating": 4.5, "free": True}
    assert datetime.fromisoformat(written) == datetime(2026, 3, 2, 10, tzinfo=UTC)


def test_metadata_is_what_was_asked_for(store: Any, foreign: str, ask: Ask) -> None:
    retriever = store(
        mode="bm25",
        text_property="body",
        title_property=None,
        url_property=None,
        id_property=None,
        metadata=["rating"],
    )
    (found,) = ask(retriever, "tin")
    assert (found.title, found.metadata) == ("", {"rating": 4.5})


def test_objects_without_a_text_are_left_out(store: Any, foreign: str, ask: Ask) -> None:
    retriever = store(mode="bm25", text_property="body", title_property="headline")
    assert ask(retriever, "empty") == []
    (found,) = ask(retriever, "gold")
    assert found.title == ""


def test_a_wrong_text_property_is_named_with_the_right_ones(store: Any, foreign: str, ask: Ask) -> None:
    with pytest.raises(RetrieverError, match=r"no property 'text' .*body.*headline.*text_property="):
        ask(store(mode="bm25"), "tin")


def test_an_unknown_metadata_property_is_an_error_with_a_hint(store: Any, foreign: str, ask: Ask) -> None:
    with pytest.raises(RetrieverError, match=r"pages.*name its properties"):
        ask(
            store(
                mode="bm25",
                text_property="body",
                title_property=None,
                url_property=None,
                id_property=None,
                metadata=["pages"],
            ),
            "tin",
        )


def test_searching_changes_nothing(store: Any, place: Any, foreign: str, ask: Ask) -> None:
    client = place.client()
    before = client.collections.get(foreign).config.get()
    for mode in ("hybrid", "bm25", "near_vector"):
        with contextlib.suppress(RetrieverError):  # its objects have no vectors
            ask(store(mode=mode, text_property="body"), "tin")
    assert client.collections.get(foreign).config.get() == before
    client.close()
    if place.server is not None:
        assert {asked.method for asked in place.server.asked} == {"BatchObjects", "Search"}
        assert sum(method != "GET" for method, _ in place.server.visited) == 1, (
            "the fixture made the collection"
        )


# Tenants.


@pytest.fixture
def tenants(store: Any) -> WeaviateRetriever:
    acme, globex = store(tenant="acme"), store(tenant="globex")
    create_collection(acme, tenants=True)
    import_passages(acme, [Passage("The secret of acme is water.", id="a")])
    import_passages(globex, [Passage("The secret of globex is lead.", id="g")])
    return acme


@pytest.mark.parametrize("mode", ["hybrid", "bm25", "near_vector"])
def test_a_tenant_never_sees_anothers_passages(tenants: WeaviateRetriever, ask: Ask, mode: Any) -> None:
    """Field case 14."""
    acme = replace(tenants, mode=mode)
    assert ids(ask(acme, "the secret of globex is lead")) == ["a"]
    assert ids(ask(acme.with_tenant("globex"), "the secret of acme is water")) == ["g"]


def test_without_a_tenant_nothing_is_seen(tenants: WeaviateRetriever, ask: Ask) -> None:
    with pytest.raises(RetrieverError, match="pass tenant="):
        ask(tenants.with_tenant(None), "secret")


def test_an_unknown_tenant_is_an_error(tenants: WeaviateRetriever, ask: Ask) -> None:
    with pytest.raises(RetrieverError, match="check the tenant's name"):
        ask(tenants.with_tenant("initech"), "secret")


@pytest.mark.parametrize("tenant", ["", " ", 5])
def test_an_empty_tenant_is_refused(tenants: WeaviateRetriever, tenant: Any) -> None:
    """It would be sent as no tenant at all."""
    with pytest.raises(ConfigError, match="tenant"):
        tenants.with_tenant(tenant)


def test_a_tenant_where_there_are_none_is_an_error(filled: WeaviateRetriever, ask: Ask) -> None:
    with pytest.raises(RetrieverError, match="tenant"):
        ask(filled.with_tenant("acme"), "water")


def test_threads_and_tenants_do_not_mix(tenants: WeaviateRetriever) -> None:
    """32 threads on one connection, each with its tenant."""
    by_tenant = {"acme": "a", "globex": "g"}
    start, wrong = threading.Barrier(32), []

    def work(number: int) -> None:
        tenant = ("acme", "globex")[number % 2]
        retriever = tenants.with_tenant(tenant)
        start.wait(20)
        for _ in range(5):
            found = ids(retriever("the secret of acme and globex"))
            if found != [by_tenant[tenant]]:
                wrong.append((tenant, found))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []


# Connections.


def test_nothing_connects_before_the_first_search(weaviate_server: Any) -> None:
    retriever = WeaviateRetriever.from_url(
        weaviate_server.url, "Articles", grpc_port=weaviate_server.grpc_port
    )
    repr(retriever), copy.deepcopy(retriever), pickle.dumps(retriever), retriever.with_tenant("acme")
    retriever.close()
    assert weaviate_server.visited == []


def test_one_connection_serves_all_searches_and_tenants(tenants: WeaviateRetriever, place: Any) -> None:
    if place.server is None:
        pytest.skip("only the protocol server tells")
    place.server.visited.clear()
    for tenant in ("acme", "globex", "acme"):
        tenants.with_tenant(tenant)("secret")
    assert place.server.visited == [("GET", f"/v1/schema/{tenants.collection}")], (
        "connecting asks for /v1/meta"
    )
    assert len({asked.peer for asked in place.server.asked[-3:]}) == 1


def test_a_closed_retriever_connects_again(filled: WeaviateRetriever, ask: Ask) -> None:
    filled.close()
    assert ask(filled, "water", 1)[0].id == "water"


def test_event_loops_come_and_go(filled: WeaviateRetriever, recwarn: pytest.WarningsRecorder) -> None:
    async def many() -> list[list[Passage]]:
        return await asyncio.gather(*(filled.acall("water", 1) for _ in range(8)))

    for _ in range(3):
        assert {found[0].id for found in asyncio.run(many())} == {"water"}

    async def closed_and_opened() -> list[Passage]:
        await filled.acall("water", 1)
        await filled.aclose()
        return await filled.acall("water", 1)

    assert ids(asyncio.run(closed_and_opened())) == ["water"]
    assert [str(one.message) for one in recwarn if "not closed" in str(one.message)] == []


def test_a_client_of_the_caller_is_used_and_never_closed(
    place: Any, filled: WeaviateRetriever, ask: Ask, toy_embedder: Any
) -> None:
    client = place.client()
    retriever = WeaviateRetriever.from_client(client, filled.collection, embedder=toy_embedder)
    assert ask(retriever, "water", 1)[0].id == "water"
    retriever.close()
    asyncio.run(retriever.aclose())
    del retriever
    assert client.is_connected()
    assert client.collections.get(filled.collection).query.bm25("water").objects
    client.close()


def test_an_async_client_of_the_caller_serves_async_searches(
    place: Any, filled: WeaviateRetriever, toy_embedder: Any
) -> None:
    import weaviate

    host, port = place.url.removeprefix("http://").split(":")

    async def search() -> list[Passage]:
        used = weaviate.use_async_with_local(host, int(port), place.grpc_port, skip_init_checks=True)
        async with used as client:
            retriever = WeaviateRetriever.from_client(client, filled.collection, embedder=toy_embedder)
            found = await retriever.acall("water", 1)
            await retriever.aclose()
            assert client.is_connected()
            with pytest.raises(RetrieverError, match="acall"):
                retriever("water", 1)
            return found

    assert ids(asyncio.run(search())) == ["water"]


def test_a_v3_client_is_a_type_error_that_says_what_to_do() -> None:
    class Client:
        """The interface of weaviate-client v3, which cannot be installed beside v4."""

        schema = data_object = query = batch = None

    with pytest.raises(TypeError, match=r"v3 .*upgrade weaviate-client to version 4"):
        WeaviateRetriever.from_client(Client(), "Articles")


def test_something_else_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"WeaviateClient or WeaviateAsyncClient, got str"):
        WeaviateRetriever.from_client("http://localhost:8080", "Articles")


# Copies, pickles and options.


def test_copies_are_the_same_object(store: Any) -> None:
    retriever = store()
    assert copy.copy(retriever) is retriever
    assert copy.deepcopy([retriever])[0] is retriever


def test_a_pickle_finds_the_same(tenants: WeaviateRetriever, ask: Ask) -> None:
    plain = replace(tenants, embedder=None, mode="bm25", timeout=9.0)
    loaded = pickle.loads(pickle.dumps(plain))  # noqa: S301
    assert ask(loaded, "secret") == ask(plain, "secret")
    assert (loaded.tenant, loaded.timeout) == ("acme", 9.0)


def test_a_client_that_was_passed_in_cannot_be_pickled(place: Any) -> None:
    client = place.client()
    with pytest.raises(TypeError, match="from a url"):
        pickle.dumps(WeaviateRetriever.from_client(client, "Articles"))
    client.close()


def test_the_consistency_level_is_sent(weaviate_server: Any, ask: Ask) -> None:
    retriever = WeaviateRetriever.from_url(
        weaviate_server.url,
        "Articles",
        grpc_port=weaviate_server.grpc_port,
        consistency="QUORUM",
        mode="bm25",
    )
    create_collection(retriever)
    ask(retriever, "water")
    from weaviate.proto.v1 import base_pb2

    assert weaviate_server.asked[-1].request.consistency_level == base_pb2.CONSISTENCY_LEVEL_QUORUM


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"mode": "keyword"}, "mode"),
        ({"alpha": 1.5}, "alpha"),
        ({"alpha": float("nan")}, "alpha"),
        ({"mode": "near_vector"}, "embedder"),
        ({"text_property": ""}, "text_property"),
        ({"tenant": ""}, "tenant"),
        ({"metadata": "title"}, "metadata"),
        ({"query_properties": [""]}, "query_properties"),
        ({"consistency": "MOST"}, "consistency"),
        ({"timeout": -1}, "timeout"),
        ({"retries": 1.5}, "retries"),
        ({"grpc_port": 0}, "grpc_port"),
        ({"headers": {"X-OpenAI-Api-Key": ""}}, "headers"),
        ({"key": ""}, "WEAVIATE_API_KEY"),
    ],
)
def test_a_bad_argument_is_named_before_any_work(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        WeaviateRetriever.from_url("http://localhost:8080", "Articles", **options)


@pytest.mark.parametrize(
    "url", ["localhost:8080", "ftp://localhost", "", "http://", "http://localhost:8080/v1"]
)
def test_a_bad_address_is_named(url: str) -> None:
    with pytest.raises(ConfigError, match="url"):
        WeaviateRetriever.from_url(url, "Articles")


@pytest.mark.parametrize("make", [WeaviateRetriever.from_url, WeaviateRetriever.cloud])
def test_a_password_in_the_address_is_refused_and_not_repeated(make: Any) -> None:
    with pytest.raises(ConfigError, match="no password") as caught:
        make("https://ada:planted-pw@localhost:8080", "Articles")
    assert "planted-pw" not in str(caught.value)


@pytest.mark.parametrize("filters", ["lang = de", 5, {"lang": None}, {"lang": []}, {"lang": {"not": "de"}}])
def test_a_filter_of_another_shape_is_named(weaviate_server: Any, ask: Ask, filters: Any) -> None:
    retriever = WeaviateRetriever.from_url(
        weaviate_server.url, "Articles", grpc_port=weaviate_server.grpc_port, filters=filters, mode="bm25"
    )
    with pytest.raises(ConfigError, match="filters"):
        ask(retriever, "water")


@pytest.mark.parametrize("k", [0, -1, True, 2.5, None])
def test_k_is_a_whole_number(weaviate_server: Any, ask: Ask, k: Any) -> None:
    retriever = WeaviateRetriever.from_url(weaviate_server.url, "Articles", mode="bm25")
    with pytest.raises(ConfigError, match="k must be"):
        ask(retriever, "water", k)
