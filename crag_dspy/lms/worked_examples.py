"""Worked examples for predictors that have none yet, in plain facts of our own, far from any data set.

They belong to a task, not to a prompt: an optimizer may rewrite a signature's instructions and keep its examples, and
demos that it finds replace them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crag_dspy.signatures.answer import ChoiceAnswer, ClaimCheck, LongAnswer, ShortAnswer
from crag_dspy.signatures.closed_book import ChoiceAnswerAlone, ClaimCheckAlone, ShortAnswerAlone
from crag_dspy.signatures.grade import GradeRelevance
from crag_dspy.signatures.reflect import DecideRetrieval, JudgeSupport, JudgeUsefulness
from crag_dspy.signatures.rewrite import RewriteQuery
from crag_dspy.text.scripts import language_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dspy.signatures.signature import Signature

Example = dict[str, str]

_CANADA = "[1] Ottawa: Ottawa was chosen as the capital of Canada by Queen Victoria in 1857."
_NILE = "[1] Nile: The river flows north through eleven countries and empties into the Mediterranean Sea."
_BEES = (
    "[1] Honey bee: Bees make honey from nectar. A worker lives about six weeks in summer.\n"
    "[2] Queen bee: The queen can live five years."
)
_TEA = "[1] 茶：茶树原产于中国西南部，叶子含有咖啡因。"
_WALL = "[1] 西安城墙：西安城墙建于明代，周长约十四公里。\n[2] 西安：西安是陕西省的省会。"

_BRIDGE = (
    "[1] 洛阳桥：这座石桥由泉州知州蔡襄在北宋主持建造，全长八百多米。\n[2] 洛阳桥：1988年，它成为重点文物。"
)
_PANDA = "[1] 大熊猫：大熊猫主要栖息在四川、陕西和甘肃的山区，以竹子为食。"
_SMALLPOX = (
    "[1] 天花：1796年，英国乡村医生爱德华·詹纳首先试验了牛痘接种，后来挽救了无数人的生命。\n"
    "[2] 天花：1980年，世界卫生组织宣布天花已被消灭。"
)
_TOWER = "[1] 台北101：大楼高508米，2004年落成，当时是世界最高的建筑。"

# Chinese needs more of them: of 60 answers that stood in the context the bundled model gave 12 after two, 21 after six.
_SHORT: list[Example] = [
    {"context": _CANADA, "question": "In which year was Ottawa chosen as the capital?", "answer": "1857"},
    {"context": _NILE, "question": "Into which sea does the Nile flow?", "answer": "the Mediterranean Sea"},
    {"context": _BEES, "question": "How long does a worker bee live in summer?", "answer": "about six weeks"},
]
_SHORT_ZH: list[Example] = [
    {"context": _TEA, "question": "茶树原产于哪里？", "answer": "中国西南部"},
    {"context": _WALL, "question": "西安城墙的周长是多少？", "answer": "约十四公里"},
    {"context": _BRIDGE, "question": "谁主持建造了这座石桥？", "answer": "泉州知州蔡襄"},
    {"context": _PANDA, "question": "大熊猫以什么为食？", "answer": "竹子"},
    {"context": _SMALLPOX, "question": "牛痘接种是由谁首先试验的？", "answer": "爱德华·詹纳"},
    {"context": _TOWER, "question": "台北101有多高？", "answer": "508米"},
]
_LONG: list[Example] = [
    {
        "context": _BEES,
        "question": "How long do honey bees live?",
        "answer": "A worker lives about six weeks in summer [1]. The queen can live five years [2].",
    },
    {
        "context": _NILE,
        "question": "Where does the Nile flow?",
        "answer": "It flows north through eleven countries into the Mediterranean Sea [1].",
    },
]
_CLAIM: list[Example] = [
    {"context": _NILE, "question": "The Nile flows into the Mediterranean Sea.", "answer": "true"},
    {"context": _CANADA, "question": "Ottawa became the capital of Canada in 1901.", "answer": "false"},
]
_CHOICE: list[Example] = [
    {
        "context": _NILE,
        "question": "Into which sea does the Nile flow? A: the Red Sea B: the Mediterranean Sea",
        "answer": "B",
    },
    {
        "context": _BEES,
        "question": "How long can a queen bee live? A: five years B: six weeks C: a day",
        "answer": "A",
    },
]
_QUERY: list[Example] = [
    {
        "question": "In which year was Ottawa chosen as the capital of Canada?",
        "query": "Ottawa capital Canada year",
    },
    {
        "question": "Who built the first radio telescope in his garden?",
        "query": "first radio telescope builder garden",
    },
    {"question": "How long does a worker bee live in summer?", "query": "worker bee lifespan summer"},
]
_QUERY_ZH: list[Example] = [
    {"question": "茶树原产于哪里？", "query": "茶树 原产地"},
    {"question": "西安城墙是哪个朝代修建的？", "query": "西安城墙 修建 朝代"},
]
_GRADE: list[Example] = [
    {"question": "Into which sea does the Nile flow?", "passage": _NILE[4:], "verdict": "yes"},
    {"question": "Who chose Ottawa as the capital?", "passage": _BEES[4:60], "verdict": "no"},
]
_DECIDE: list[Example] = [
    {"question": "Say hello to my sister in three words.", "verdict": "yes"},
    {"question": "Who chose Ottawa as the capital of Canada?", "verdict": "no"},
    {"question": "Which animals make honey from nectar?", "verdict": "no"},
    {"question": "How long does a worker bee live in summer?", "verdict": "no"},
]
_SUPPORT: list[Example] = [
    {**_SHORT[1], "support": "fully"},
    {"context": _BEES, "question": "How long can a queen bee live?", "answer": "six weeks", "support": "no"},
    {
        "context": _CANADA,
        "question": "Who chose Ottawa as the capital, and why?",
        "answer": "Queen Victoria, because it lay far from the border",
        "support": "partially",
    },
]
_SUPPORT_ZH: list[Example] = [
    {**_SHORT_ZH[0], "support": "fully"},
    {"context": _WALL, "question": "西安城墙是哪个朝代修建的？", "answer": "唐代", "support": "no"},
]
_USEFUL: list[Example] = [
    {"question": "In which year was Ottawa chosen as the capital?", "answer": "1857", "rating": "5"},
    {"question": "Into which sea does the Nile flow?", "answer": "It is a long river.", "rating": "1"},
    {"question": "Who wrote the two letters?", "answer": "Ann wrote the first.", "rating": "3"},
]


def _alone(examples: list[Example]) -> list[Example]:
    """The same, answered from memory."""
    return [{name: text for name, text in e.items() if name != "context"} for e in examples]


_EXAMPLES: Sequence[tuple[type[Signature], list[Example], list[Example]]] = (
    (ShortAnswer, _SHORT, _SHORT_ZH),
    (LongAnswer, _LONG, _LONG),
    (ClaimCheck, _CLAIM, _CLAIM),
    (ChoiceAnswer, _CHOICE, _CHOICE),
    (RewriteQuery, _QUERY, _QUERY_ZH),
    (GradeRelevance, _GRADE, _GRADE),
    (DecideRetrieval, _DECIDE, _DECIDE),
    (JudgeSupport, _SUPPORT, _SUPPORT_ZH),
    (JudgeUsefulness, _USEFUL, _USEFUL),
    (ShortAnswerAlone, _alone(_SHORT), _alone(_SHORT_ZH)),
    (ClaimCheckAlone, _alone(_CLAIM), _alone(_CLAIM)),
    (ChoiceAnswerAlone, _alone(_CHOICE), _alone(_CHOICE)),
)


def worked_examples(signature: type[Signature], inputs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Demos for `signature`, in Chinese where the inputs are and there are some; [] for a task we have none for.

    A task is known by its fields and their descriptions. Where nothing describes the outputs ("context, question ->
    answer"), fields alone decide: short answers and queries.
    """
    task = _task(signature)
    for known, english, chinese in _EXAMPLES:
        names, descriptions = _task(known)
        if task == (names, descriptions) or (task[0] == names and not any(task[1])):
            return [dict(example) for example in (chinese if _is_chinese(inputs) else english)]
    if list(signature.fields) == ["question", "answer"] and not any(task[1]):  # no context: from memory
        return [dict(example) for example in _alone(_SHORT)]
    return []


def _task(signature: type[Signature]) -> tuple[list[str], list[str]]:
    """The field names, and the descriptions of the outputs; "" where there is none but DSPy's own placeholder."""
    described = []
    for name, field in signature.output_fields.items():
        extra = field.json_schema_extra
        text = str(extra.get("desc", "")) if isinstance(extra, dict) else ""
        described.append("" if text == f"${{{name}}}" else text)
    return list(signature.fields), described


def _is_chinese(inputs: Mapping[str, Any]) -> bool:
    return language_of(str(inputs.get("question", ""))) == "zh"
