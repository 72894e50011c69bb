"""Files that others wrote, read in one place: published questions, and documents that are no plain text."""
