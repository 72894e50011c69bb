"""Evaluating, and the folder in which an evaluation is kept."""
