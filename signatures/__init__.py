"""The prompts, as typed contracts."""
