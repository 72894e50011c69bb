"""Everything that reads what a language model wrote. Nothing else in the library does.

Every reader takes any text in linear time, and says nothing (None, "", False) rather than guess.
"""

from crag_dspy.text.replies.choices import read_choice, read_choices
from crag_dspy.text.replies.citations import Citations, broken_citations, check_citations, uncited
from crag_dspy.text.replies.envelopes import one_line, unwrapped
from crag_dspy.text.replies.refusals import ABSTENTIONS, abstention_for, is_abstention
from crag_dspy.text.replies.thinking import reply_text, without_markers, without_thinking
from crag_dspy.text.replies.verdicts import (
    read_relevance,
    read_support,
    read_truth,
    read_usefulness,
    read_yes_no,
)

__all__ = [
    "ABSTENTIONS",
    "Citations",
    "abstention_for",
    "broken_citations",
    "check_citations",
    "is_abstention",
    "one_line",
    "read_choice",
    "read_choices",
    "read_relevance",
    "read_support",
    "read_truth",
    "read_usefulness",
    "read_yes_no",
    "reply_text",
    "uncited",
    "unwrapped",
    "without_markers",
    "without_thinking",
]
