"""`crag-dspy index docs --out weaviate --url http://localhost:8080 --collection Docs`: into a Weaviate.

Passages of an index keep their ids, titles, urls, metadata and vectors, so nothing is embedded again; documents are cut
and embedded on the way. Run again, it goes on where it stopped: an object's id is made from the passage's, and what is
there already and equal is left alone.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from crag_dspy.commands.output import answer, answer_json, note, pairs
from crag_dspy.commands.status import OK, SOME_FAILED
from crag_dspy.errors import ConfigError
from crag_dspy.files.met import Met

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from crag_dspy.passages import Passage
    from crag_dspy.retrievers.embedders import Embedder
    from crag_dspy.retrievers.index_record import EmbedderRecord
    from crag_dspy.retrievers.weaviate import WeaviateRetriever
    from crag_dspy.retrievers.weaviate_import import ImportReport

TARGET = "weaviate"
GRPC_PORT = 50051


def add_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(f"--out {TARGET}")
    group.add_argument("--url", help="such as http://localhost:8080; its key is read from WEAVIATE_API_KEY")
    group.add_argument("--grpc-port", type=int, default=GRPC_PORT, metavar="N", help="of the same host")
    group.add_argument("--cloud", action="store_true", help="the URL is a cluster of Weaviate Cloud")
    group.add_argument(
        "--collection", metavar="NAME", help="made unless it exists; one that exists is not changed"
    )
    group.add_argument("--tenant", metavar="NAME", help="scope the passages to a tenant")
    group.add_argument(
        "--replicas", type=int, metavar="N", help="of a new collection: nodes that hold each shard"
    )
    group.add_argument("--shards", type=int, metavar="N", help="of a new collection without tenants")
    group.add_argument(
        "--tokenization",
        metavar="NAME",
        help="of a new collection: how BM25 finds words; both (with and without spaces), word, gse_ch (Chinese), "
        "kagome_ja, trigram; default: both",
    )
    group.add_argument(
        "--verify", action="store_true", help="then look for each passage, and for its vector by itself"
    )


def move(args: argparse.Namespace, embedder: str, chunk_words: int | None) -> int:
    """Bring `args.source`, documents or an index, over; returns 0, or 1 when some passages were refused (listed).

    Args:
        embedder: of documents, which an index brings with it; "none" for none.
        chunk_words: most words in a passage of documents; None keeps them whole.
    """
    from crag_dspy.retrievers.index_record import FILE
    from crag_dspy.retrievers.weaviate_collection import create_collection
    from crag_dspy.retrievers.weaviate_import import import_passages

    for name in ("url", "collection"):
        if not getattr(args, name):
            raise ConfigError(f"--out {TARGET} needs --{name}")
    given: Any
    met = Met(args.strict)
    record: EmbedderRecord | None = None
    if (args.source / FILE).exists():
        from crag_dspy.retrievers.local import LocalIndex

        # The vectors come with the passages: neither side needs the embedder that made them.
        index = LocalIndex.open(args.source, mode="text")
        given, total, record, live = index.passages_with_vectors(), len(index), index.record.embedder, None
    else:
        from crag_dspy.retrievers.documents import check_source
        from crag_dspy.retrievers.embedders import as_embedder

        check_source(args.source, args.strict)  # what cannot be read is said before anything is sent
        given, total = _passages(args.source, chunk_words, met), None
        live = as_embedder(None if embedder == "none" else embedder)
    store = _store(args, live)
    try:
        made = create_collection(
            store,
            tenants=args.tenant is not None,
            replicas=args.replicas,
            shards=args.shards,
            tokenization=args.tokenization or "both",
            embedder=record,
        )
        if not made and args.tokenization:
            _note_other_tokenization(store, args.tokenization)
        report = import_passages(store, given, total=total, verify=args.verify)
    finally:
        store.close()
    made_by = record if record is not None else live
    _show(
        args,
        made,
        report,
        met.refused,
        _table(args, None if made_by is None else made_by.spec, made_by is not None),
    )
    met.tell()
    bad = met.refused or report.failed or (report.verified is not None and not report.verified.ok)
    return SOME_FAILED if bad else OK


def _passages(source: Any, chunk_words: int | None, met: Met) -> Iterator[Passage]:
    from crag_dspy.retrievers.documents import read_documents
    from crag_dspy.retrievers.index_rows import passage_of, rows_of

    for document, _ in read_documents(source, met):
        for row in rows_of(document, "", chunk_words):
            yield passage_of(row, None)


def _store(args: argparse.Namespace, embedder: Embedder | None) -> WeaviateRetriever:
    from crag_dspy.retrievers.weaviate import WeaviateRetriever

    options: dict[str, Any] = {"tenant": args.tenant, "mode": "bm25", "embedder": embedder}
    if args.cloud:
        return WeaviateRetriever.cloud(args.url, args.collection, **options)
    return WeaviateRetriever.from_url(args.url, args.collection, grpc_port=args.grpc_port, **options)


def _note_other_tokenization(store: WeaviateRetriever, asked: str) -> None:
    from crag_dspy.retrievers.weaviate_describe import describe

    found = describe(store)["tokenization"]
    if found != asked:
        note(
            f"The collection {store.collection!r} exists, and its texts are cut by {found!r} and not by {asked!r}: a "
            f"collection is never changed, so give another --collection to have it otherwise."
        )


def _table(args: argparse.Namespace, spec: str | None, has_vectors: bool) -> str:
    """The table of crag.toml that searches what was imported."""
    keys: dict[str, Any] = {"kind": TARGET, "url": args.url, "collection": args.collection}
    if args.cloud:
        keys["cloud"] = True
    elif args.grpc_port != GRPC_PORT:
        keys["grpc_port"] = args.grpc_port
    if args.tenant:
        keys["tenant"] = args.tenant
    if spec is not None:
        keys["embedder"] = spec
    elif not has_vectors:
        keys["mode"] = "bm25"
    # JSON's texts, numbers and true are TOML's.
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in keys.items()]
    if has_vectors and spec is None:
        lines.append("# and embedder: the one that made the index's vectors, which has no name")
    return "\n".join(["[retriever]", *lines])


def _show(args: argparse.Namespace, made: bool, report: ImportReport, refused: list[str], table: str) -> None:
    summary = {
        "collection": args.collection,
        "made": made,
        "written": report.written,
        "unchanged": report.unchanged,
    }
    failed = [{"id": each.id, "error": each.error} for each in report.failed]
    checked = report.verified
    lost = (
        None
        if checked is None
        else {
            "missing": checked.missing,
            "twice": checked.twice,
            "without_vector": checked.without_vector,
            "not_found": checked.not_found,
        }
    )
    if args.json:
        verified = {} if lost is None else {"verified": lost}
        answer_json({**summary, "failed": failed, "refused": refused, **verified, "config": table})
        return
    answer(pairs(summary))
    for each in failed:
        answer(f"refused {each['id']}: {each['error']}")
    for what, ids in (lost or {}).items():
        for uuid in ids:
            answer(f"{what.replace('_', ' ')}: object {uuid}")
    answer(f"\nIn crag.toml:\n\n{table}")
