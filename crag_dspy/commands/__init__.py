"""One module a command: `add_arguments(parser)` and `run(args) -> exit status`. `cli.py` imports what it runs."""
