"""From a question to what one types into a search box (arXiv 2401.15884, section 4.5)."""

from __future__ import annotations

import dspy


class RewriteQuery(dspy.Signature):
    """Rewrite the question as a web search query: the few keywords that name what is asked, in the question's language.

    Keep names, numbers and dates as they are; leave out question words.
    """

    question: str = dspy.InputField()
    query: str = dspy.OutputField(desc="at most a dozen keywords")
