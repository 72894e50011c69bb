"""Training a grader."""
