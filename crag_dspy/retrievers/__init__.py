"""What finds passages: `as_retriever` for what users have, `LocalIndex` on disk."""

from crag_dspy.retrievers.adapt import as_retriever
from crag_dspy.retrievers.local import LocalIndex

__all__ = ["LocalIndex", "as_retriever"]
