"""Questions to learn from and to measure with."""
