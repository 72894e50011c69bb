"""Correction for programs that already exist."""
