"""The small knowledge base, the small web and the questions of the demo, as package data."""
