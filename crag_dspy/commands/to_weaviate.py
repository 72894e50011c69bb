"""`crag-dspy index my-index --to weaviate --url http://localhost:8080 --collection Docs`: move a LocalIndex over.

Passages keep their ids, titles, urls, metadata and vectors, so nothing is embedded again. Run again, it goes on where
it stopped: an object's id is made from the passage's, and what is there already and equal is left alone.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from crag_dspy.errors import ConfigError

if TYPE_CHECKING:
    import argparse

TARGET = "weaviate"


def add_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(f"--to {TARGET}, with an index as the source")
    group.add_argument("--url", help="such as http://localhost:8080; its key is read from WEAVIATE_API_KEY")
    group.add_argument("--grpc-port", type=int, default=50051)
    group.add_argument(
        "--collection", metavar="NAME", help="made unless it exists; one that exists is not changed"
    )
    group.add_argument("--tenant", metavar="NAME", help="scope the passages to a tenant")


def move(args: argparse.Namespace) -> int:
    """Move the index `args.source`; returns 0, or 1 when some passages were refused (they are listed)."""
    from crag_dspy.retrievers.index_record import FILE
    from crag_dspy.retrievers.local import LocalIndex
    from crag_dspy.retrievers.weaviate import WeaviateRetriever
    from crag_dspy.retrievers.weaviate_collection import create_collection
    from crag_dspy.retrievers.weaviate_import import import_passages

    for name in ("url", "collection"):
        if not getattr(args, name):
            raise ConfigError(f"--to {TARGET} needs --{name}")
    if not (args.source / FILE).exists():
        raise ConfigError(
            f"--to {TARGET} moves an index: make one with crag-dspy index {args.source} --to FOLDER"
        )
    # The vectors come with the passages: neither side needs the embedder that made them.
    index = LocalIndex.open(args.source, mode="text")
    store = WeaviateRetriever.from_url(
        args.url, args.collection, grpc_port=args.grpc_port, tenant=args.tenant, mode="bm25"
    )
    made = create_collection(store, tenants=args.tenant is not None)
    report = import_passages(store, index.passages_with_vectors(), total=len(index))
    summary = {
        "collection": args.collection,
        "made": made,
        "written": report.written,
        "unchanged": report.unchanged,
    }
    failed = [{"id": each.id, "error": each.error} for each in report.failed]
    if args.json:
        sys.stdout.write(json.dumps({**summary, "failed": failed}, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write("  ".join(f"{name} {value}" for name, value in summary.items()) + "\n")
        for each in failed:
            sys.stdout.write(f"refused {each['id']}: {each['error']}\n")
    return 1 if failed else 0
