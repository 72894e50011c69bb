"""One TOML a shipped or documented grader."""
