"""`crag-dspy index my-index --out weaviate --url http://localhost:8080 --collection Docs`: move a LocalIndex over.

Passages keep their ids, titles, urls, metadata and vectors, so nothing is embedded again. Run again, it goes on where
it stopped: an object's id is made from the passage's, and what is there already and equal is left alone.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from crag_dspy.commands.output import answer, answer_json, note, pairs
from crag_dspy.commands.status import OK, SOME_FAILED
from crag_dspy.errors import ConfigError

if TYPE_CHECKING:
    import argparse

    from crag_dspy.retrievers.local import LocalIndex
    from crag_dspy.retrievers.weaviate import WeaviateRetriever
    from crag_dspy.retrievers.weaviate_import import ImportReport

TARGET = "weaviate"
LOOKED_AT = 50  # passages, to see which script an index is in
# How BM25 finds words in scripts that are written without spaces.
TOKENIZATIONS = {"zh": "gse_ch", "ja": "kagome_ja"}


def add_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(f"--out {TARGET}, with an index as the source")
    group.add_argument("--url", help="such as http://localhost:8080; its key is read from WEAVIATE_API_KEY")
    group.add_argument("--grpc-port", type=int, default=50051, metavar="N", help="of the same host")
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
        default="word",
        help="of a new collection: how BM25 finds words; word, gse_ch (Chinese), kagome_ja, trigram; default: word",
    )


def move(args: argparse.Namespace) -> int:
    """Move the index `args.source`; returns 0, or 1 when some passages were refused (they are listed)."""
    from crag_dspy.retrievers.index_record import FILE
    from crag_dspy.retrievers.local import LocalIndex
    from crag_dspy.retrievers.weaviate_collection import create_collection
    from crag_dspy.retrievers.weaviate_import import import_passages

    for name in ("url", "collection"):
        if not getattr(args, name):
            raise ConfigError(f"--out {TARGET} needs --{name}")
    if not (args.source / FILE).exists():
        raise ConfigError(
            f"--out {TARGET} moves an index: make one with crag-dspy index {args.source} --out FOLDER"
        )
    # The vectors come with the passages: neither side needs the embedder that made them.
    index = LocalIndex.open(args.source, mode="text")
    store = _store(args)
    try:
        made = create_collection(
            store,
            tenants=args.tenant is not None,
            replicas=args.replicas,
            shards=args.shards,
            tokenization=args.tokenization,
        )
        if made and args.tokenization == "word":
            _warn_of_script(index)
        report = import_passages(store, index.passages_with_vectors(), total=len(index))
    finally:
        store.close()
    _show(args, made, report)
    return SOME_FAILED if report.failed else OK


def _store(args: argparse.Namespace) -> WeaviateRetriever:
    from crag_dspy.retrievers.weaviate import WeaviateRetriever

    if args.cloud:
        return WeaviateRetriever.cloud(args.url, args.collection, tenant=args.tenant, mode="bm25")
    return WeaviateRetriever.from_url(
        args.url, args.collection, grpc_port=args.grpc_port, tenant=args.tenant, mode="bm25"
    )


def _warn_of_script(index: LocalIndex) -> None:
    from crag_dspy.text.scripts import language_of

    scripts = {language_of(passage.text) for passage in islice(index.passages(), LOOKED_AT)}
    fitting = [TOKENIZATIONS[script] for script in sorted(scripts & set(TOKENIZATIONS), reverse=True)]
    if fitting:
        note(
            f"The index has text written without spaces, in which BM25 finds no words by the tokenization 'word': "
            f"better move it into another collection with --tokenization {fitting[0]}, or trigram for several "
            f"languages."
        )


def _show(args: argparse.Namespace, made: bool, report: ImportReport) -> None:
    summary = {
        "collection": args.collection,
        "made": made,
        "written": report.written,
        "unchanged": report.unchanged,
    }
    failed = [{"id": each.id, "error": each.error} for each in report.failed]
    if args.json:
        answer_json({**summary, "failed": failed})
        return
    answer(pairs(summary))
    for each in failed:
        answer(f"refused {each['id']}: {each['error']}")
