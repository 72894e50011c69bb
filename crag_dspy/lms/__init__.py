"""A language model in this process, for machines without a key, and plain prompts for small models."""
