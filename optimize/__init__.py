"""What improves a program and measures it."""
