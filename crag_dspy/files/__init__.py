"""Files of published questions, read in one place for what measures and what trains."""
