"""Systems side by side on the same questions."""
