"""Saying that the answer is not there: our own sentence in each language, and the ways of language models.

An answer that refuses one thing and says another is an answer: "The context does not mention the year directly. It was
designed by John Roebling in 1867." So every clause of a refusal must refuse, or say nothing: an apology, a plea, what
the context is about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from crag_dspy.text.replies.citations import uncited
from crag_dspy.text.replies.thinking import reply_text
from crag_dspy.text.scripts import language_of
from crag_dspy.text.sentences import sentence_spans
from crag_dspy.text.unicode_forms import normal_form

ABSTENTIONS = {
    "en": "The evidence does not contain the answer.",
    "zh": "现有资料中没有答案。",
    "ja": "資料の中に答えはありません。",
}


def _any(words: str) -> str:
    return f"(?:{'|'.join(words.split())})"


# What the answer was to be found in; by these words the evidence is meant, by the others perhaps something else.
_OURS_TO_READ = _any("context evidence passages? knowledge excerpts? snippets?")
_SOURCE = _any(
    "context evidence passages? knowledge excerpts? snippets? texts? documents? sources? articles? information "
    "materials? contents? paragraphs? sections?"
)
_NOT = "(?: not|n't)"
_CANNOT = "(?:cannot|can not|can't|could not|couldn't)"
_FIND = _any("know answer say tell find determine provide locate identify confirm verify give infer help")
_HAVE = "have (?:(?:the|any|enough|sufficient) )?(?:\\w+ )?" + _any(
    "information knowledge access data context details? answer evidence idea"
)
_SAY = _any(
    "say contain mention state provide include specify name give have reveal indicate answer tell list address "
    "identify discuss offer cover describe explain show support clarify disclose refer directly explicitly specifically"
)
_SAID = _any(
    "stated mentioned found given provided specified available present included contained listed named described "
    "discussed answered disclosed indicated supported known clear"
)
_TOPIC = _any("information context mention details? answer data")
_IS = _any("is are was were remains?")
# What may stand before a refusal: "I'm sorry, but", "Therefore,", "Based on the context,".
_LEAD = (
    r"^(?:(?:final )?(?:answer|response): ?)?"
    r"(?:(?:i'm|i am|we're|we are) (?:sorry|afraid)(?: that)?[, ]+"
    r"|(?:sorry|my apologies|apologies|unfortunately|sadly|regrettably|therefore|thus|so|hence|and|then|as such"
    r"|as a result|in that case|it (?:seems|appears)(?: that)?)[, ]+"
    r"|(?:based on|according to|from|given|in|with|within|using|as an?)\b[^,]{1,90}, ){0,3}"
)
_SOME = r"(?:[\w'-]+ ){0,6}?"  # a few words, as few as will do
_REFUSALS = (
    # "Unknown": the whole clause. So is a bare "None": that it is the true answer is rare, and a metric whose gold
    # it is takes it. A bare "no" or "nothing" answers.
    r"^(?:unknown|unclear|unanswerable|unspecified|unsure|no answer|no idea|no information|n/a"
    r"|(?:(?:i'm|i am|we are) )?not (?:enough information|sufficient information|sure|certain)"
    r"|insufficient (?:information|context|evidence)"
    r"|(?:no (?:answer|information|evidence|data|details?)|none) (?:is |was )?(?:found|available|given|provided|stated)"
    r"|none|null|nil|未知|不详|不詳|无|無|无答案|没有答案|不明|不明です|なし)$",
    # "I cannot answer this question."
    rf"{_LEAD}(?:i|we) (?:(?:do|did|could|can|would|am|are|was|were){_NOT}|cannot|can't)(?: \w+ly)? "
    rf"(?:able to|sure|certain|aware|see any|be sure|be certain|{_FIND}|{_HAVE})\b",
    rf"{_LEAD}(?:i|we) (?:have no|lack|failed to|(?:am|are|was|were) unable to)\b",
    rf"{_LEAD}i'm (?:unable to|not (?:able to|sure|certain|aware))\b",
    rf"{_LEAD}(?:unable|not able|not possible|impossible|{_CANNOT}) (?:to )?(?:be )?"
    r"(?:determine|answer|find|found|identif|confirm|infer|tell|say|provid)",
    # "The question cannot be answered from the passages."
    rf"\b{_CANNOT} be (?:\w+ly )?(?:answered|determined|inferred|deduced|ascertained)\b",
    rf"\b{_CANNOT} be (?:\w+ly )?(?:found|known|identified|established|confirmed|verified)"
    r"(?:$| (?:in|from|based|given|using|with (?:the |any )?(?:given|provided|available))\b)",
    r"\b(?:not|isn't|impossible) (?:possible )?to (?:determine|answer|say|tell|know|infer)\b",
    # "This is not in the evidence." "Not found in provided context."
    rf"(?:\bnot|\bnever|n't) (?:\w+ )?(?:{_SAID} )?(?:\w+ )?(?:in|by|within|from) "
    rf"(?:(?:the|any|this|these|that|what) )?(?:\w+ ){{0,2}}{_SOURCE}\b",
    rf"(?:\bnot|n't) (?:{_SAID} )?(?:in|by) what (?:was|is|i)\b",
    rf"^(?:\w+ )?not {_SAID}(?: (?:here|there|anywhere|explicitly|directly))?$",
    rf"^(?:[\w'-]+ ){{1,12}}(?:is|are|was|were|has|have){_NOT}(?: \w+ly)? (?:been )?{_SAID}$",
    rf"^(?:[\w'-]+ ){{1,12}}{_IS}(?: \w+ly)? (?:unknown|unclear|unspecified|uncertain)"
    r"(?: (?:from|in|based on) .{1,80})?$",
    rf"{_LEAD}it (?:is|was|remains) (?:unknown|unclear|uncertain|not {_SAID}) "
    r"(?:who|whom|whose|what|which|when|where|how|why|whether|if)\b",
    rf"^{_SOME}[\w'-]+: (?:unknown|not {_SAID})$",
    # "The context does not say who built it."
    rf"{_LEAD}{_SOME}{_OURS_TO_READ}(?: [\w'-]+){{0,4}}? (?:do|does|did|is|are|was|were|has|have){_NOT}\b"
    r"(?! (?:only|just|merely)\b)",
    rf"{_LEAD}{_SOME}{_SOURCE}(?: [\w'-]+){{0,4}}? (?:do|does|did){_NOT} (?:\w+ly )?(?:(?:seem|appear) to )?{_SAY}\b",
    rf"^(?:do|does|did){_NOT} (?:\w+ly )?{_SAY}\b",
    rf"{_LEAD}(?:it|this|they) (?:do|does|did){_NOT} (?:\w+ly )?(?:say|state|mention|specify|answer|tell)\b",
    rf"{_LEAD}(?:none|neither) of the (?:\w+ ){{0,2}}{_SOURCE}\b",
    rf"{_LEAD}{_SOME}{_SOURCE} (?:\w+ )?"
    r"(?:lacks?|says? nothing|(?:has|have|(?:contain|provide|give|make|offer|include)s?) no)\b",
    # "There is no information about it."
    rf"{_LEAD}(?:there(?:'s| (?:is|was|are|were){_NOT}?) )?(?:(?:simply|currently|also) )?"
    rf"(?:no|not enough|insufficient|not sufficient|enough|sufficient|not any|any) (?:\w+ ){{0,2}}?{_TOPIC}\b"
    r"(?! (?:technology|age|theory|system|science|cent))",
    rf"{_LEAD}(?:there(?:'s| (?:is|was|are|were)) )?(?:no|not enough|insufficient|not sufficient) (?:\w+ )?evidence"
    r"(?:$| (?:in|here|was|is|to|available|provided)\b)",
)
_HAN_SUBJECT = (
    "(?:^|我们?|[，,：:]|资料|資料|文中|文本|上下文|段落|文章|证据|證據|信息|資訊|原文|材料|文档|文檔|内容|內容|知识库"
    "|[该該本此]文|这里|问题|問題|答案|目前|暂时|暂)"
)
_HAN_BETWEEN = (
    "(?:中|里|裡|内|內|也|并|並|都|均|还|還|仍|尚|所|提供|暂|暫|的|我|们|直接|明确|明確|完全|实在){0,6}"
)
_HAN_REFUSALS = (
    rf"{_HAN_SUBJECT}{_HAN_BETWEEN}(?:不知道|不清楚|不确定|不確定|不了解|不能确定"
    r"|(?:无法|無法|不能|没法|难以|難以)[^，,。]{0,20}?(?:回答|确定|確定|得知|判断|判斷|找到|得出|给出|提供|知道|作答|确认|確認"
    r"|推断|推斷|知晓))",
    rf"{_HAN_SUBJECT}{_HAN_BETWEEN}(?:没有|沒有|并未|並未|未能|未曾|未|没|沒)能?[^，,。]{{0,4}}?"
    r"(?:找到|提到|提及|说明|說明|包含|给出|給出|提供|记载|記載|涉及|写明|指出|明说|足够|足夠|相关|相關|答案|信息|資訊|有关|有關)",
    rf"{_HAN_SUBJECT}{_HAN_BETWEEN}[找查]不到(?:$|[^，,。]{{0,12}}?(?:相关|相關|有关|有關|(?:答案|信息|資訊|资料|資料|记载|記載)(?!的)))",
    r"^(?:(?:根据|依据|从|在)[^，,。]{0,30}[，,]?)?(?:信息|资料|資料|证据|證據)不足",
    r"(?:没有|沒有|缺乏|缺少)(?:足够|足夠|相关|相關|有关|有關)的?(?:信息|资料|資料|证据|證據|内容|內容)",
    r"(?:分かりません|わかりません|見つかりません|答えられません|記載[がは]?(?:ありません|ない|されていません)"
    r"|情報[がは]ありません|書かれていません|不明です)$",
)


@cache
def _refusal() -> re.Pattern[str]:
    """Compiled when first asked for: it takes 10 ms, which importing the library need not."""
    return re.compile("|".join((*_REFUSALS, *_HAN_REFUSALS)))


_MAYBE = re.compile(
    r"[,;] ?(?:it )?(?:maybe|perhaps|probably|possibly|likely|i (?:think|believe|guess)"
    r"|it (?:may|might|could|seems|(?:is|was)(?! (?:not|un|im))))\b"
    r"|(?:可能|也许|或许|应该)是"
)
# Clauses that say nothing by themselves.
_EMPTY = re.compile(
    "|".join(
        (
            r"^(?:(?:i'm|i am|we're|we are|i|we) )?(?:\w+ly )?(?:sorry|afraid|apologi[sz]e|apologies|my apologies)"
            r"\b[\w ,']{0,60}$",
            r"^(?:please|if you|let me know|could you|can you|would you|feel free|for (?:more|further)|i would need"
            r"|you (?:may|might|can|could|should)|(?:more|additional|further) (?:information|context|research))\b",
            # What the context is about instead, unless it says that something is so.
            rf"^(?:{_SOME}{_SOURCE}(?: \w+){{0,3}}? (?:only|just|merely|mentions?|discuss(?:es)?|talks? about"
            r"|describes?|focus(?:es)?|is about|are about|provides?|covers?|refers? to|deals? with)"
            r"|(?:it|they) (?:only|just|merely))\b(?!.*\bthat\b)(?!.*\d)",
            r"^(?:抱歉|对不起|對不起|很遗憾|很抱歉|不好意思|请|請|如果您|如需|您可以)[^0-9]{0,60}$",
            r"^(?:该|这|此|上述|提供的|所给)?(?:上下文|资料|文中|文章|段落|证据|文本|材料)中?(?:只|仅|主要)[^0-9]{0,80}$",
        )
    )
)
_TURN = re.compile(
    r"(?:[,;:—–-] ?| )?\b(?:but|however|although|though|yet|nevertheless|nonetheless)\b,? ?"
    r"|[，,]?(?:但是|但|不过|不過|然而|可是)[，,]?|しかし"
)
_SUBORDINATE = re.compile(
    r"^(?:although|though|even though|while|whilst|since|as|because|虽然|尽管)\b[^,，]{0,200}[,，] ?"
)
_QUOTES = " \t\r\n\"'“”‘’「」『』*_`#.。!！?？,，;；:：()（）[]…-–—"

_OWN = {text.strip(_QUOTES).lower() for text in ABSTENTIONS.values()}


def abstention_for(question: str) -> str:
    """The sentence that says that the evidence is not there, in the language of a question."""
    return ABSTENTIONS[language_of(question)]


def is_abstention(answer: str) -> bool:
    """Whether an answer says nothing but that it does not know, in English, Chinese or Japanese.

    So does an answer without a letter or a digit. Thinking, citations and markers of fields are no part of it.
    """
    text = normal_form("NFKC", uncited(reply_text(answer))).replace("’", "'").strip()
    if not any(char.isalnum() for char in text):
        return True
    refused = False
    for clause in _clauses(text):
        if _refuses(clause):
            refused = True
        elif not _EMPTY.search(clause):
            return False
    return refused


def _clauses(text: str) -> Iterator[str]:
    sentences = (line[start:end] for line in text.splitlines() for start, end in sentence_spans(line))
    for sentence in (" ".join(sentence.lower().split()) for sentence in sentences):
        for part in re.split(r"[;；]", _SUBORDINATE.sub("", sentence.strip(_QUOTES))):
            for piece in _TURN.split(part):
                if any(char.isalnum() for char in piece):
                    yield piece.strip(_QUOTES)


def _refuses(clause: str) -> bool:
    if clause in _OWN:
        return True
    return _refusal().search(clause) is not None and not _MAYBE.search(clause)
