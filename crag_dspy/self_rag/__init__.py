"""Self-RAG (arXiv 2310.11511): a generator that judges its own paragraphs."""
