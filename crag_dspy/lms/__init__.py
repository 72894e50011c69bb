"""A language model in this process, for machines without a key, and the plain prompts that small models need."""
