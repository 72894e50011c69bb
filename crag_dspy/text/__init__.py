"""Reading text: sentences, words, scripts, and what language models wrote."""
