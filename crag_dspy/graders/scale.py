"""What every grader says of the same things."""

from __future__ import annotations

RELEVANT, IRRELEVANT = 1.0, -1.0
# A text of white space holds nothing that could be relevant. That is known, so it is not None.
EMPTY_SCORE = IRRELEVANT
