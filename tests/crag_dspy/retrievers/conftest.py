"""A server that speaks Weaviate's REST and gRPC protocols on 127.0.0.1, for the real Weaviate client.

What it covers: what the client sends and reads (its own protobuf classes, over real sockets), collections and
tenants and their separation, batches with errors of single objects, filters, which properties and metadata come
back, API keys, and faults that a test plans. What it does not: Weaviate's ranking (words count by how many the
query and the text share, and hybrid search adds that to the cosine), its indexes, replication, persistence, speed
and limits; near-text uses a toy vectorizer. So tests that pass here show that requests and replies fit together,
and not how good a search is.

Tests that take the fixture `place` run against a true Weaviate as well when CRAG_TEST_WEAVIATE_URL names one
(`http://localhost:8080`; CRAG_TEST_WEAVIATE_GRPC_PORT when its gRPC port is not 50051). They make collections
named CragTest..., and remove them.
"""

from __future__ import annotations

import json
import math
import os
import re
import struct
import threading
import uuid
from collections import deque
from concurrent import futures
from dataclasses import dataclass, field
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

VERSION = "1.40.2"


class RefusedError(Exception):
    """What the server answers instead of a result."""


@dataclass
class Stored:
    """An object: its properties as Python values, and its vector by name ("" for the only one).

    `indexed` is False for what a killed server kept in its object store only: found by words, never by vectors.
    """

    uuid: str
    properties: dict[str, Any]
    vectors: dict[str, list[float]]
    indexed: bool = True


@dataclass
class Collection:
    schema: dict[str, Any]
    tenants: dict[str, dict[str, Stored]] = field(default_factory=dict)  # "" holds those of no tenant

    @property
    def kinds(self) -> dict[str, str]:
        return {prop["name"]: prop["dataType"][0] for prop in self.schema.get("properties", [])}

    @property
    def cuts(self) -> dict[str, str]:
        properties = self.schema.get("properties", [])
        texts = {
            prop["name"]: prop.get("tokenization", "word")
            for prop in properties
            if self.kinds[prop["name"]] == "text"
        }
        return {**{name: kind for name, kind in self.kinds.items() if kind == "date"}, **texts}

    @property
    def has_tenants(self) -> bool:
        return bool(self.schema.get("multiTenancyConfig", {}).get("enabled"))

    @property
    def vectorizer(self) -> bool:
        configs = self.schema.get("vectorConfig", {}).values()
        return any("none" not in config["vectorizer"] for config in configs)

    def of(self, tenant: str) -> dict[str, Stored]:
        name = self.schema["class"]
        if self.has_tenants != bool(tenant):
            state, sent = ("enabled", "without") if self.has_tenants else ("disabled", "with")
            raise RefusedError(f"class {name} has multi-tenancy {state}, but request was {sent} tenant")
        if self.has_tenants and tenant not in self.tenants:
            raise RefusedError(f'tenant not found: "{tenant}"')
        return self.tenants.setdefault(tenant, {})


@dataclass(frozen=True)
class Asked:
    """One gRPC request as the server read it."""

    method: str
    request: Any
    metadata: dict[str, str]
    peer: str


class WeaviateServer:
    """`fail` and `rest_faults` plan faults; `asked` and `visited` say what was requested, by gRPC and REST."""

    def __init__(self) -> None:
        self.collections: dict[str, Collection] = {}
        self.asked: list[Asked] = []
        self.visited: list[tuple[str, str]] = []
        self.key: str | None = None
        self.let_go = threading.Event()
        self.rest_faults: deque[int] = deque()
        self.lost: int = 0  # batches to come that are stored, not indexed, and not acknowledged: kill -9
        self.refuses: dict[str, str] = {}  # what the error of every object is, by method
        self.nodes = 3
        self.lacks = {"gse"}  # tokenizers
        self.starting = False  # REST answers, and knows no collection yet
        self.cold: set[str] = set()  # tenants that are there and not active
        self.inconsistent = False  # what is found is said to be so, when it is asked
        self.largest: int | None = None  # bytes of a request
        self._faults: deque[tuple[str, Any, str]] = deque()
        self._lock = threading.RLock()
        self._start_grpc()
        self._start_rest()

    def fail(self, method: str, code: Any, details: str = "planned", times: int = 1) -> None:
        """The next `times` requests of `method` end with the gRPC status `code`; None means silence."""
        self._faults.extend([(method, code, details)] * times)

    def stop(self) -> None:
        self.let_go.set()
        self._http.shutdown()
        self._http.server_close()
        self._grpc.stop(None)

    # gRPC.

    def _start_grpc(self) -> None:
        import grpc
        from weaviate.proto.v1 import weaviate_pb2_grpc

        server = self

        class Service(weaviate_pb2_grpc.WeaviateServicer):  # type: ignore[misc]
            def Search(self, request: Any, context: Any) -> Any:  # noqa: N802
                return server._answered("Search", request, context, server._search)

            def BatchObjects(self, request: Any, context: Any) -> Any:  # noqa: N802
                return server._answered("BatchObjects", request, context, server._store)

            def BatchDelete(self, request: Any, context: Any) -> Any:  # noqa: N802
                return server._answered("BatchDelete", request, context, server._delete)

            def Aggregate(self, request: Any, context: Any) -> Any:  # noqa: N802
                return server._answered("Aggregate", request, context, server._count)

            def TenantsGet(self, request: Any, context: Any) -> Any:  # noqa: N802
                return server._answered("TenantsGet", request, context, server._tenants)

        self._grpc = grpc.server(futures.ThreadPoolExecutor(16))
        weaviate_pb2_grpc.add_WeaviateServicer_to_server(Service(), self._grpc)
        self.grpc_port = self._grpc.add_insecure_port("127.0.0.1:0")
        self._grpc.start()

    def _answered(self, method: str, request: Any, context: Any, answer: Callable[[Any], Any]) -> Any:
        import grpc

        metadata = dict(context.invocation_metadata())
        with self._lock:
            self.asked.append(Asked(method, request, metadata, context.peer()))
            planned = self._faults and self._faults[0][0] == method
            _, code, details = self._faults.popleft() if planned else ("", None, "")
        if planned and code is None:
            self.let_go.wait(10)
        elif planned:
            context.abort(code, details)
        if self.largest is not None and request.ByteSize() > self.largest:
            said = f"Sent message larger than max ({request.ByteSize()} vs. {self.largest})"
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, said)
        if method == "BatchObjects" and self.lost:
            self.lost -= 1
            with self._lock:
                self._store(request, indexed=False)
            context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
        if self.key is not None and metadata.get("authorization") != f"Bearer {self.key}":
            context.abort(grpc.StatusCode.UNAUTHENTICATED, f"unauthorized: {metadata.get('authorization')}")
        try:
            with self._lock:
                return answer(request)
        except RefusedError as refused:
            context.abort(grpc.StatusCode.UNKNOWN, str(refused))

    def _collection(self, name: str) -> Collection:
        if name not in self.collections:
            raise RefusedError(f"could not find class {name} in schema")
        return self.collections[name]

    def _search(self, request: Any) -> Any:
        from weaviate.proto.v1 import search_get_pb2

        collection = self._collection(request.collection)
        if request.tenant in self.cold:
            raise RefusedError(f"tenant not active: '{request.tenant}'")
        objects = list(collection.of(request.tenant).values())
        if request.HasField("filters"):
            objects = [one for one in objects if _passes(one, request.filters, collection.cuts)]
        unknown = set(request.properties.non_ref_properties) - set(collection.kinds)
        if unknown:
            raise RefusedError(
                f"no such prop with name '{min(unknown)}' found in class '{request.collection}'"
            )
        reply = search_get_pb2.SearchReply()
        for one, score, distance in _ranked(request, collection, objects)[: request.limit or 10]:
            _write(reply.results.add(), one, request, collection, score, distance)
            if request.metadata.is_consistent:
                reply.results[-1].metadata.is_consistent = not self.inconsistent
                reply.results[-1].metadata.is_consistent_present = True
        return reply

    def _store(self, request: Any, *, indexed: bool = True) -> Any:
        from weaviate.proto.v1 import batch_pb2

        reply = batch_pb2.BatchObjectsReply()
        for index, sent in enumerate(request.objects):
            try:
                collection = self._collection(sent.collection)
                properties = _read(sent.properties)
                _check(properties, collection)
                vectors = {one.name: _floats(one.vector_bytes) for one in sent.vectors}
                if sent.vector_bytes:
                    vectors[""] = _floats(sent.vector_bytes)
                if not vectors and collection.vectorizer:
                    vectors[""] = _toy_vector(" ".join(map(str, properties.values())))
                if "BatchObjects" in self.refuses:
                    raise RefusedError(self.refuses["BatchObjects"])
                objects = collection.of(sent.tenant)
                before = objects.get(sent.uuid)
                objects[sent.uuid] = Stored(sent.uuid, properties, vectors, indexed)
                if before is not None and before.vectors == vectors:
                    objects[sent.uuid].indexed = before.indexed  # the same again does not mend it
                lengths = {
                    len(one.vectors[name])
                    for one in objects.values()
                    for name in one.vectors
                    if name in vectors
                }
                if len(lengths) > 1:  # an error, and stored all the same
                    objects[sent.uuid].indexed = False
                    raise RefusedError(
                        f"new node has a vector with length {min(lengths)}: vector lengths differ"
                    )
            except RefusedError as refused:
                reply.errors.add(index=index, error=str(refused))
        return reply

    def _delete(self, request: Any) -> Any:
        from weaviate.proto.v1 import batch_delete_pb2

        collection = self._collection(request.collection)
        objects = collection.of(request.tenant)
        gone = [name for name, one in objects.items() if _passes(one, request.filters, collection.cuts)]
        for name in gone:
            del objects[name]
        return batch_delete_pb2.BatchDeleteReply(matches=len(gone), successful=len(gone))

    def _count(self, request: Any) -> Any:
        from weaviate.proto.v1 import aggregate_pb2

        reply = aggregate_pb2.AggregateReply()
        reply.single_result.objects_count = len(self._collection(request.collection).of(request.tenant))
        return reply

    def _tenants(self, request: Any) -> Any:
        from weaviate.proto.v1 import tenants_pb2

        reply, wanted = tenants_pb2.TenantsGetReply(), set(request.names.values)
        for name in self._collection(request.collection).tenants:
            if name and (not wanted or name in wanted):
                reply.tenants.add(name=name, activity_status=tenants_pb2.TENANT_ACTIVITY_STATUS_ACTIVE)
        return reply

    # REST.

    def _start_rest(self) -> None:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 65_536  # one packet: headers and body apart wait for each other's acknowledgement

            def do(self) -> None:
                sent = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"null")
                with server._lock:
                    server.visited.append((self.command, self.path))
                    if server.rest_faults:
                        status, reply = server.rest_faults.popleft(), {"error": [{"message": "planned"}]}
                    elif server.key is None or self.headers.get("authorization") == f"Bearer {server.key}":
                        status, reply = server._rest(self.command, self.path, sent)
                    else:
                        said = f"anonymous access not enabled: {self.headers.get('authorization')}"
                        status, reply = 401, {"error": [{"message": said}]}
                body = json.dumps(reply).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_GET = do_POST = do_DELETE = do_HEAD = do  # noqa: N815

            def log_message(self, *args: Any) -> None:
                """Tests read `visited`."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def _rest(self, method: str, path: str, sent: Any) -> tuple[int, Any]:
        if (method, path) == ("GET", "/v1/meta"):
            return 200, {
                "version": VERSION,
                "grpcMaxMessageSize": 104_858_000,
                "modules": {"text2vec-toy": {}},
            }
        if self.starting and path.endswith("/ready"):
            return 503, {}
        if self.starting and path.startswith("/v1/schema"):
            return 404, {}
        if path.startswith("/v1/.well-known/"):
            return (404, {}) if path.endswith("openid-configuration") else (200, {})
        if (method, path) == ("POST", "/v1/schema"):
            if sent["class"] in self.collections:
                return 422, {"error": [{"message": f"class name {sent['class']} already exists"}]}
            cuts = {prop.get("tokenization") for prop in sent.get("properties", [])}
            lacking = cuts & self.lacks
            if lacking:  # one that this server was not started with
                name = min(lacking).upper()
                said = (
                    f"the {name} tokenizer is not enabled; set 'ENABLE_TOKENIZER_{name}' to 'true' to enable"
                )
                return 422, {"error": [{"message": said}]}
            if sent.get("replicationConfig", {}).get("factor", 1) > self.nodes:
                said = (
                    f"could not find enough weaviate nodes for replication: {self.nodes} available, "
                    f"{sent['replicationConfig']['factor']} requested"
                )
                return 422, {"error": [{"message": said}]}
            self.collections[sent["class"]] = Collection(_with_defaults(sent))
            return 200, sent
        match = re.fullmatch(r"/v1/schema/(\w+)(/tenants)?(?:/(.+))?", path)
        if match is not None and method == "DELETE":
            self.collections.pop(match[1], None)
            return 200, {}
        if match is None or match[1] not in self.collections:
            return 404, {}
        collection = self.collections[match[1]]
        if match[2] is None:
            return 200, collection.schema
        if method == "POST":
            for tenant in sent:
                collection.tenants.setdefault(tenant["name"], {})
            return 200, sent
        return (200, {"name": match[3]}) if match[3] in collection.tenants else (404, {})


def _with_defaults(schema: dict[str, Any]) -> dict[str, Any]:
    """A collection as the server describes it: what was not said has its default."""
    quantizers = {
        "pq": {
            "enabled": False,
            "bitCompression": False,
            "segments": 0,
            "centroids": 256,
            "trainingLimit": 100_000,
            "encoder": {"type": "kmeans", "distribution": "log-normal"},
        },
        "bq": {"enabled": False},
        "sq": {"enabled": False, "trainingLimit": 100_000, "rescoreLimit": 20},
    }
    hnsw = {
        "skip": False,
        "cleanupIntervalSeconds": 300,
        "maxConnections": 32,
        "efConstruction": 128,
        "ef": -1,
        "dynamicEfMin": 100,
        "dynamicEfMax": 500,
        "dynamicEfFactor": 8,
        "vectorCacheMaxObjects": 1_000_000_000_000,
        "flatSearchCutoff": 40_000,
        "filterStrategy": "acorn",
        "distance": "cosine",
        **quantizers,
    }
    vectors = {
        name: {"vectorIndexType": "hnsw", "vectorIndexConfig": hnsw, **config}
        for name, config in schema.get("vectorConfig", {}).items()
    }
    properties = [
        {
            "indexFilterable": True,
            **({"tokenization": "word"} if prop["dataType"][0].startswith("text") else {}),
            "indexSearchable": prop["dataType"][0] == "text",
            **prop,
        }
        for prop in schema.get("properties", [])
    ]
    tenants = {"enabled": False, "autoTenantCreation": False, "autoTenantActivation": False}
    sharding = {
        "virtualPerPhysical": 128,
        "desiredCount": 1,
        "actualCount": 1,
        "desiredVirtualCount": 128,
        "actualVirtualCount": 128,
        "key": "_id",
        "strategy": "hash",
        "function": "murmur3",
    }
    return {
        **schema,
        "properties": properties,
        "vectorConfig": vectors,
        "invertedIndexConfig": {
            "bm25": {"b": 0.75, "k1": 1.2},
            "cleanupIntervalSeconds": 60,
            "stopwords": {"preset": "en", "additions": None, "removals": None},
        },
        "multiTenancyConfig": {**tenants, **schema.get("multiTenancyConfig", {})},
        "replicationConfig": {"factor": 1, **schema.get("replicationConfig", {})},
        "shardingConfig": {**sharding, **schema.get("shardingConfig", {})},
    }


# Objects in and out.


def _read(sent: Any) -> dict[str, Any]:
    properties = dict(sent.non_ref_properties.items())
    properties.update({array.prop_name: list(array.values) for array in sent.text_array_properties})
    properties.update({array.prop_name: list(array.values) for array in sent.int_array_properties})
    return properties


def _check(properties: dict[str, Any], collection: Collection) -> None:
    for name, value in properties.items():
        kind = collection.kinds.get(name)
        if kind is None:
            raise RefusedError(
                f"no such prop with name '{name}' found in class '{collection.schema['class']}'"
            )
        wanted: Any = {
            "text": str,
            "date": str,
            "uuid": str,
            "int": float,
            "number": float,
            "boolean": bool,
        }.get(kind, list)
        if value is not None and not isinstance(value, wanted):
            raise RefusedError(
                f"invalid {kind} property '{name}' on class: not a {kind}, but {type(value).__name__}"
            )


def _write(result: Any, one: Stored, request: Any, collection: Collection, score: Any, distance: Any) -> None:
    wanted = request.metadata
    if wanted.uuid:
        result.metadata.id_as_bytes = uuid.UUID(one.uuid).bytes
        result.metadata.id = one.uuid
    for name, vector in one.vectors.items() if wanted.vector or wanted.vectors else ():
        packed = struct.pack(f"<{len(vector)}f", *vector)
        if name:
            result.metadata.vectors.add(name=name, vector_bytes=packed)
        else:
            result.metadata.vector_bytes = packed
    if wanted.score and score is not None:
        result.metadata.score, result.metadata.score_present = score, True
    if wanted.distance and distance is not None:
        result.metadata.distance, result.metadata.distance_present = distance, True
    asked = request.properties
    fields = result.properties.non_ref_props.fields
    for name, value in one.properties.items():
        every = asked.return_all_nonref_properties or not request.HasField("properties")
        if not every and name not in asked.non_ref_properties:
            continue
        kind = collection.kinds[name]
        if value is None:
            fields[name].null_value = 0
        elif kind == "text[]":
            fields[name].list_value.text_values.values.extend(value)
        elif kind == "int[]":
            fields[name].list_value.int_values.values = struct.pack(f"<{len(value)}q", *map(int, value))
        elif kind == "date":
            fields[name].date_value = re.sub(r"(\.\d*?)0*(?:\+00:00|Z)$", _shorter, value)
        elif kind == "int":
            fields[name].int_value = int(value)
        else:
            setattr(fields[name], {"boolean": "bool"}.get(kind, kind) + "_value", value)


def _shorter(found: re.Match[str]) -> str:
    """As the server writes a moment in UTC: without zeros at the end of its seconds, and with Z."""
    return ("" if found[1] == "." else found[1]) + "Z"


def _floats(packed: bytes) -> list[float]:
    return list(struct.unpack(f"<{len(packed) // 4}f", packed))


# Searching: enough to tell requests apart.


def _ranked(request: Any, collection: Collection, objects: Sequence[Stored]) -> list[tuple[Stored, Any, Any]]:
    if request.HasField("bm25_search"):
        asked = request.bm25_search
        scored = [(one, _overlap(asked.query, one, collection, asked.properties)) for one in objects]
        return [(one, score, None) for one, score in _best(scored) if score > 0]
    if request.HasField("near_vector"):
        near = request.near_vector
        vector = _floats(near.vectors[0].vector_bytes if near.vectors else near.vector_bytes)
        return _nearest(objects, vector, list(near.targets.target_vectors))
    if request.HasField("near_text"):
        return _nearest(objects, _vectorized(request.near_text.query[0], collection), [])
    if request.HasField("hybrid_search"):
        asked = request.hybrid_search
        alpha = asked.alpha_param if asked.HasField("alpha_param") else asked.alpha or 0.75
        packed = asked.vectors[0].vector_bytes if asked.vectors else asked.vector_bytes
        words = {one.uuid: _overlap(asked.query, one, collection, asked.properties) for one in objects}
        top = max(words.values(), default=0.0) or 1.0
        near: dict[str, float] = {}
        if alpha > 0:
            vector = _floats(packed) if packed else _vectorized(asked.query, collection)
            found = _nearest(objects, vector, list(asked.targets.target_vectors))
            near = {one.uuid: 1 - distance for one, _, distance in found}
        fused = [
            (one, (1 - alpha) * words[one.uuid] / top + alpha * near.get(one.uuid, 0.0)) for one in objects
        ]
        return [(one, score, None) for one, score in _best(fused) if score > 0]
    return [(one, None, None) for one in objects]


def _best(scored: Sequence[tuple[Stored, float]]) -> list[tuple[Stored, float]]:
    return sorted(scored, key=lambda pair: -pair[1])


def _nearest(
    objects: Sequence[Stored], vector: list[float], names: list[str]
) -> list[tuple[Stored, Any, Any]]:
    found = []
    for one in objects:
        own = one.vectors.get(names[0] if names else "") or next(iter(one.vectors.values()), None)
        if own is not None and one.indexed:
            if len(own) != len(vector):
                raise RefusedError(f"vector lengths don't match: {len(own)} vs {len(vector)}")
            found.append((one, None, 1 - _cosine(own, vector)))
    return sorted(found, key=lambda entry: entry[2])


def _cosine(a: Sequence[float], b: Sequence[float]) -> float:
    lengths = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(x * x for x in b))
    return sum(x * y for x, y in zip(a, b, strict=True)) / lengths if lengths else 0.0


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def _overlap(query: str, one: Stored, collection: Collection, names: Sequence[str]) -> float:
    searched = [name.split("^")[0] for name in names] or [
        prop["name"] for prop in collection.schema["properties"] if prop.get("indexSearchable")
    ]
    cuts = {prop["name"]: prop.get("tokenization", "word") for prop in collection.schema["properties"]}
    for name in searched:
        known = [prop for prop in collection.schema["properties"] if prop["name"] == name]
        if not known or not known[0].get("indexSearchable"):
            raise RefusedError(
                f"Property {name} is not indexed. Please choose another property or add an index"
            )
    return float(
        sum(
            len(_cut(query, cuts[name]) & _cut(str(one.properties.get(name) or ""), cuts[name]))
            for name in searched
        )
    )


def _cut(text: str, tokenization: str) -> set[str]:
    """`word` takes a Chinese clause for one word; `gse_ch` cuts Latin words into letters; `field` does not cut."""
    if tokenization == "field":
        return {text.strip()} - {""}
    if tokenization == "trigram":
        letters = "".join(re.findall(r"\w", text.lower()))
        return {letters[at : at + 3] for at in range(len(letters) - 2)}
    if tokenization == "gse_ch":
        return set(re.findall(r"\w", text.lower()))
    return _words(text)


def _vectorized(text: str, collection: Collection) -> list[float]:
    if not collection.vectorizer:
        raise RefusedError(f"could not vectorize input: class {collection.schema['class']} has no vectorizer")
    return _toy_vector(text)


def _toy_vector(text: str) -> list[float]:
    vector = [0.0] * 32
    for word in _words(text):
        vector[sum(word.encode()) % 32] += 1.0
    return vector


STOPWORDS = {"the", "a", "an", "and"}


def _passes(one: Stored, wanted: Any, kinds: dict[str, str]) -> bool:
    """`kinds` is how the texts of a property are cut, and "date" for one with dates."""
    from weaviate.proto.v1 import base_pb2

    operators = base_pb2.Filters
    if wanted.operator in (operators.OPERATOR_AND, operators.OPERATOR_OR):
        every = all if wanted.operator == operators.OPERATOR_AND else any
        return every(_passes(one, part, kinds) for part in wanted.filters)
    name = wanted.target.property
    value = one.uuid if name == "_id" else one.properties.get(name)
    kind = wanted.WhichOneof("test_value")
    asked = getattr(wanted, kind)
    if kind == "value_text" and isinstance(value, str) and name in kinds:
        cut = kinds[name]
        if cut == "date":
            return datetime.fromisoformat(value) == datetime.fromisoformat(asked)
        if wanted.operator == operators.OPERATOR_EQUAL and cut != "field":
            words = _words(asked) - STOPWORDS
            if not words:
                raise RefusedError("invalid search term, only stopwords provided")
            return words <= _words(value)  # equal to what shares its words
    if wanted.operator == operators.OPERATOR_EQUAL:
        return bool(value == asked)
    if wanted.operator == operators.OPERATOR_CONTAINS_ANY:
        own = value if isinstance(value, list) else [value]
        return bool(set(own) & set(asked.values))
    if wanted.operator == operators.OPERATOR_GREATER_THAN:
        return value is not None and value > asked
    raise RefusedError(f"this server does not know the operator {wanted.operator}")


# Fixtures.


@pytest.fixture
def toy_embedder() -> Callable[[list[str]], Any]:
    """Texts that share words are near: no model, and the same everywhere."""

    def embed(texts: list[str]) -> list[list[float]]:
        return [_toy_vector(text) for text in texts]

    return embed


@dataclass(frozen=True)
class Place:
    """Where a test finds its Weaviate. `server` is None for a true one."""

    url: str
    grpc_port: int
    server: WeaviateServer | None

    def client(self) -> Any:
        import weaviate

        host, port = self.url.removeprefix("http://").split(":")
        return weaviate.connect_to_local(host, int(port), self.grpc_port, skip_init_checks=True)


_TRUE = [pytest.param("true", marks=pytest.mark.weaviate)] if os.environ.get("CRAG_TEST_WEAVIATE_URL") else []


@pytest.fixture
def weaviate_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[WeaviateServer]:
    """A fresh protocol server, in an environment without a key."""
    monkeypatch.delenv("WEAVIATE_API_KEY", raising=False)
    server = WeaviateServer()
    yield server
    server.stop()


@pytest.fixture
def protocol_place(weaviate_server: WeaviateServer) -> Place:
    """The protocol server only, for tests of what it alone holds or lacks."""
    return Place(weaviate_server.url, weaviate_server.grpc_port, weaviate_server)


@pytest.fixture(params=["protocol", *_TRUE])
def place(request: pytest.FixtureRequest) -> Place:
    """The protocol server, and a true Weaviate where there is one."""
    if request.param == "protocol":
        server = request.getfixturevalue("weaviate_server")
        return Place(server.url, server.grpc_port, server)
    grpc_port = int(os.environ.get("CRAG_TEST_WEAVIATE_GRPC_PORT", "50051"))
    return Place(os.environ["CRAG_TEST_WEAVIATE_URL"].rstrip("/"), grpc_port, None)


@pytest.fixture
def fresh_name(place: Place) -> Iterator[str]:
    """The name of a collection that does not exist, removed after the test."""
    name = f"CragTest{uuid.uuid4().hex[:12]}"
    yield name
    if place.server is None:
        client = place.client()
        try:
            client.collections.delete(name)
        finally:
            client.close()
