"""How a command ends, as its exit status."""

OK = 0
SOME_FAILED = 1  # it ran to its end, and some of it failed: a question, a passage, something that is missing
WRONG = 2  # something to mend: an option, a file, a setting
INTERRUPTED = 130
BROKEN_PIPE = 141  # whoever read the answers went away
