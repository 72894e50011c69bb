"""A passage is read once: one encoding finds it, grades it, and grades its strips."""
