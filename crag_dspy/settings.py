"""Everything tunable that is not a prompt, as one `dspy.Parameter`: saved, loaded and searched with the program."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, get_args

from crag_dspy.actions import ALLOWED, POLICIES, Allowed, Policy, Thresholds
from crag_dspy.errors import ConfigError
from crag_dspy.refine import STRIP_MODES, StripMode
from crag_dspy.state.tunable import A_DAY, TIME_LIMIT, Rule, Tunable, flag, number, one_of, text, whole

NoEvidence = Literal["abstain", "answer"]
GradeBy = Literal["auto", "once", "passage", "strips"]
OnUnsupported = Literal["flag", "abstain"]
Select = Literal["both", "internal", "web", "none"]


@dataclasses.dataclass
class Settings(Tunable):
    """What an optimizer of thresholds may change; assignments are checked, so that a bad value never gets in.

    Attributes:
        upper, lower: the two thresholds, in [-1, 1], lower <= upper.
        policy: "max" (the paper) or "vote" (every passage is judged).
        actions: "all"; without one ("no_correct", ...) or with one alone ("correct", ...): see `actions.decide`.
        k: passages to retrieve.
        web_results: pages to ask the web search for.
        grade_by: "once": a passage is encoded once, or was when it was indexed, and it and its strips are graded from
            that; strips are read in their context. It takes a grader that can, such as "mini". "passage": the grader
            reads every passage, then the strips of it. "strips": a passage's score is that of its best strip, which
            reads the text once instead of twice. "auto": "once" where the grader can, else "passage". What thresholds
            are best depends on it.
        strip_mode, strip_size: see `refine.decompose`.
        top_n: strips kept, of both origins together: what the language model has to read. A small one wants few.
        strip_threshold: strips below it are dropped, in [-1, 1].
        evidence_threshold: there is no evidence where the best strip is below it, in [-1, 1]. Which strips are the
            best and whether they are good enough are two questions: `strip_threshold` costs answers where it is high.
        select: whose strips are graded and the best kept: "both", "internal", "web" or "none". Of the other origin
            all are kept, as they come.
        rewrite: rewrite the question to keywords for the web search; False sends the question itself.
        time_limit: seconds that a call of a part may take (retriever, grader, search, language model), after which the
            part has failed. 0 sets no limit, and calls parts in the caller's own thread.
        no_evidence: "abstain" says that the evidence is not there, "answer" asks the language model all the same.
        answer_threshold: an answer with less confidence is not supported by its evidence, in [0, 1]; one that was not
            judged has none.
        on_unsupported: "flag" gives such an answer, with `grounded` False; "abstain" declines, also where the check
            failed.
        grader, grader_fingerprint: the grader these thresholds were tuned on ("" when nobody did).
    """

    RULES: ClassVar[Mapping[str, Rule]] = {
        "upper": number(-1, 1),
        "lower": number(-1, 1),
        "policy": one_of(*POLICIES),
        "actions": one_of(*ALLOWED),
        "k": whole(1),
        "web_results": whole(1),
        "grade_by": one_of(*get_args(GradeBy)),
        "strip_mode": one_of(*STRIP_MODES),
        "strip_size": whole(1),
        "top_n": whole(1),
        "strip_threshold": number(-1, 1),
        "evidence_threshold": number(-1, 1),
        "select": one_of(*get_args(Select)),
        "rewrite": flag,
        "time_limit": number(0, A_DAY),
        "no_evidence": one_of(*get_args(NoEvidence)),
        "answer_threshold": number(0, 1),
        "on_unsupported": one_of(*get_args(OnUnsupported)),
        "grader": text,
        "grader_fingerprint": text,
    }

    upper: float = 0.59
    lower: float = -0.99
    policy: Policy = "max"
    actions: Allowed = "all"
    k: int = 10
    web_results: int = 5
    grade_by: GradeBy = "auto"
    strip_mode: StripMode = "sentence"
    strip_size: int = 1
    top_n: int = 5
    strip_threshold: float = -0.95
    evidence_threshold: float = -0.5
    select: Select = "both"
    rewrite: bool = True
    time_limit: float = TIME_LIMIT
    no_evidence: NoEvidence = "abstain"
    answer_threshold: float = 0.2
    on_unsupported: OnUnsupported = "flag"
    grader: str = ""
    grader_fingerprint: str = ""

    def __post_init__(self) -> None:
        Thresholds(self.upper, self.lower)

    @property
    def thresholds(self) -> Thresholds:
        """Both cuts, checked against each other."""
        values = self.__dict__.copy()
        return Thresholds(values["upper"], values["lower"])

    def update(self, values: Mapping[str, Any]) -> None:
        """Also `thresholds=Thresholds(upper, lower)`, both cuts in one."""
        super().update(with_cuts(values))

    def check_together(self, values: Mapping[str, Any]) -> None:
        Thresholds(values["upper"], values["lower"])


def with_cuts(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings in which `thresholds`, if it is given, stands as `upper` and `lower`."""
    rest = dict(values)
    if "thresholds" not in rest:
        return rest
    cuts = rest.pop("thresholds")
    if not isinstance(cuts, Thresholds):
        raise ConfigError(f"thresholds must be Thresholds(upper, lower), got {cuts!r}")
    if twice := {"upper", "lower"} & set(rest):
        raise ConfigError(f"give thresholds, or {' and '.join(sorted(twice))}, not both")
    return {**rest, "upper": cuts.upper, "lower": cuts.lower}


@dataclasses.dataclass
class RetrievalSettings(Tunable):
    """What a system without correction has to set.

    Attributes:
        k: passages to retrieve; 0 retrieves none.
        time_limit: as in `Settings`.
    """

    RULES: ClassVar[Mapping[str, Rule]] = {"k": whole(0), "time_limit": number(0, A_DAY)}

    k: int = 10
    time_limit: float = TIME_LIMIT
