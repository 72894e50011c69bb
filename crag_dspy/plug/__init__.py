"""Correction for programs that already exist: DSPy's, and those of LangChain and LlamaIndex."""

from crag_dspy.plug.frameworks import as_langchain, as_llama_index
from crag_dspy.plug.programs import as_rm, as_tool, corrected, corrective

__all__ = ["as_langchain", "as_llama_index", "as_rm", "as_tool", "corrected", "corrective"]
