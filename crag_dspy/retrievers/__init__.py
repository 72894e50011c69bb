"""What finds passages: `as_retriever` for what users have, `LocalIndex` on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crag_dspy.live.lazy_names import lazy_names

if TYPE_CHECKING:
    from crag_dspy.retrievers.adapt import as_retriever
    from crag_dspy.retrievers.local import LocalIndex

__all__ = ["LocalIndex", "as_retriever"]

__getattr__, __dir__ = lazy_names(__name__, {"LocalIndex": "local", "as_retriever": "adapt"})
