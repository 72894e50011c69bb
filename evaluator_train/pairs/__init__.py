"""Labelled pairs to train and measure a grader on."""
