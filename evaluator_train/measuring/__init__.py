"""How good and how fast a grader is."""
