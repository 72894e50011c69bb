"""`python -m crag_dspy`: the same as `crag-dspy`."""

import sys

from crag_dspy.commands.cli import main

sys.exit(main())
