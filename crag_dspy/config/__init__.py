"""`crag.toml`: the parts of a program by name."""
