"""Corrective RAG as a DSPy program."""
