"""How the shipped grader was made: scripts that run from a checkout; not in the wheel."""
