"""Words that say nothing by themselves: a sentence is judged, and searched, by the others."""

from __future__ import annotations

from crag_dspy.text.matching import words

_WORDS = """
a an the and or but not no of in on at to for from by with as is are was were be been being it its
this that these those he she they his her their them who him which what when where how i you we
there here has have had do does did can could will would may might must shall should than then so if
also about into over after before between during s t answer yes true false 的 了 是 在 和 与 也 有 是的 对 不 他
她 它 这 那
"""
COMMON_WORDS = frozenset(_WORDS.split())
# Characters that make no word of content, alone or together; metrics need not know them.
_PARTICLES = frozenset("之其以于而或及所着过们吗呢吧啊呀嘛么什怎样谁哪都就很被把从到为何のはがを")


def says_something(text: str) -> bool:
    """Whether a word in `text` has content: "to or from" and 之的了 have none."""
    return any(word not in COMMON_WORDS and word not in _PARTICLES for word in words(text))
