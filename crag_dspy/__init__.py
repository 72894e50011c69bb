"""crag-dspy: Corrective RAG as a DSPy program. `CRAG` is the entrance.

Names are imported when they are first used, so that `import crag_dspy` stays near `import dspy`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crag_dspy.live.lazy_names import lazy_names

if TYPE_CHECKING:
    from crag_dspy.actions import Action, Thresholds, decide
    from crag_dspy.baselines import RAG, NoRetrieval, SelfCRAG, SelfRAG
    from crag_dspy.corrective import CorrectiveRetriever
    from crag_dspy.crag import CRAG
    from crag_dspy.errors import CragError
    from crag_dspy.graders.adapt import as_grader
    from crag_dspy.graders.embedding import EmbeddingGrader
    from crag_dspy.graders.lm import LMGrader
    from crag_dspy.graders.t5 import T5Grader
    from crag_dspy.lms.local import local_lm
    from crag_dspy.lms.plain_text import PlainTextAdapter
    from crag_dspy.passages import Passage, Strip, as_passages
    from crag_dspy.plug.programs import as_rm, as_tool, corrected
    from crag_dspy.refine import decompose
    from crag_dspy.retrievers.adapt import as_retriever
    from crag_dspy.retrievers.local import LocalIndex
    from crag_dspy.retrievers.weaviate import WeaviateRetriever
    from crag_dspy.retrievers.weaviate_collection import create_collection
    from crag_dspy.retrievers.weaviate_import import import_passages
    from crag_dspy.settings import Settings
    from crag_dspy.trace import Trace
    from crag_dspy.websearch.adapt import as_web_search
    from crag_dspy.websearch.index import IndexSearch
    from crag_dspy.websearch.tavily import TavilySearch

_HOMES = {
    "Action": "actions",
    "CRAG": "crag",
    "CorrectiveRetriever": "corrective",
    "CragError": "errors",
    "EmbeddingGrader": "graders.embedding",
    "IndexSearch": "websearch.index",
    "LMGrader": "graders.lm",
    "LocalIndex": "retrievers.local",
    "NoRetrieval": "baselines",
    "Passage": "passages",
    "PlainTextAdapter": "lms.plain_text",
    "RAG": "baselines",
    "SelfCRAG": "baselines",
    "SelfRAG": "baselines",
    "Settings": "settings",
    "Strip": "passages",
    "T5Grader": "graders.t5",
    "TavilySearch": "websearch.tavily",
    "Thresholds": "actions",
    "Trace": "trace",
    "WeaviateRetriever": "retrievers.weaviate",
    "as_grader": "graders.adapt",
    "as_passages": "passages",
    "as_retriever": "retrievers.adapt",
    "as_rm": "plug.programs",
    "as_tool": "plug.programs",
    "as_web_search": "websearch.adapt",
    "corrected": "plug.programs",
    "create_collection": "retrievers.weaviate_collection",
    "decide": "actions",
    "decompose": "refine",
    "import_passages": "retrievers.weaviate_import",
    "local_lm": "lms.local",
}

__all__ = [
    "CRAG",
    "RAG",
    "Action",
    "CorrectiveRetriever",
    "CragError",
    "EmbeddingGrader",
    "IndexSearch",
    "LMGrader",
    "LocalIndex",
    "NoRetrieval",
    "Passage",
    "PlainTextAdapter",
    "SelfCRAG",
    "SelfRAG",
    "Settings",
    "Strip",
    "T5Grader",
    "TavilySearch",
    "Thresholds",
    "Trace",
    "WeaviateRetriever",
    "as_grader",
    "as_passages",
    "as_retriever",
    "as_rm",
    "as_tool",
    "as_web_search",
    "corrected",
    "create_collection",
    "decide",
    "decompose",
    "import_passages",
    "local_lm",
]
__version__ = "0.1.0"

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
