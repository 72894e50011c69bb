"""What is learned is saved, and what is saved is what comes back: DSPy's own JSON, safe to share and to read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dspy
import pytest

from crag_dspy import CRAG, CorrectiveRetriever, Passage
from crag_dspy.baselines import RAG, SelfCRAG
from crag_dspy.errors import StateError

QUESTION = "When did the Ardent Bridge open?"
PASSAGES = [
    Passage("The Ardent Bridge opened in 1931. It is green.", id="a", title="Ardent Bridge"),
    Passage("Cats sleep most of the day.", id="b"),
]
KEY = "sk-planted-0123456789"


class WordGrader:
    """Relevance by a word, and a name and fingerprint of one's choice."""

    def __init__(self, name: str = "words", fingerprint: str = "words-1") -> None:
        self.name, self.fingerprint = name, fingerprint

    def score(self, question: str, texts: Sequence[str]) -> list[float | None]:
        return [0.9 if "opened" in text else -0.8 for text in texts]


def build(grader: Any = None, **settings: Any) -> CRAG:
    return CRAG(PASSAGES, grader or WordGrader(), lambda query, max_results: ["A page."], **settings)


def learned() -> CRAG:
    """A program whose every kind of state differs from a new one's."""
    program = build()
    program.settings.update(
        {
            "upper": 0.25,
            "lower": -0.75,
            "policy": "vote",
            "k": 7,
            "web_results": 2,
            "strip_mode": "window",
            "strip_size": 6,
            "top_n": 3,
            "strip_threshold": -0.9,
            "rewrite": False,
            "no_evidence": "answer",
            "grader": "words",
            "grader_fingerprint": "words-1",
        }
    )
    program.generate.demos = [
        dspy.Example(context="[1] Ships float.", question="What floats?", answer="Ships")
    ]
    program.generate.signature = program.generate.signature.with_instructions("Answer like a librarian.")
    program.corrective.rewrite.signature = program.corrective.rewrite.signature.with_instructions(
        "Three keywords."
    )
    return program


def changed(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    state = json.loads(path.read_text())
    change(state)
    path.write_text(json.dumps(state))


def test_state_comes_back_whole(tmp_path: Path) -> None:
    before = learned()
    before.save(tmp_path / "crag.json")
    after = build().load(tmp_path / "crag.json")
    assert after.settings == before.settings
    assert after.dump_state() == before.dump_state()
    assert [demo["answer"] for demo in after.generate.demos] == ["Ships"]
    assert after.corrective.rewrite.signature.instructions == "Three keywords."
    assert os.listdir(tmp_path) == ["crag.json"]


FRESH = """
import json, sys
import dspy
from crag_dspy import CRAG, Passage
from dspy.lm15 import Message, Response, Usage

class Engine:
    supported_params = frozenset({"temperature", "max_tokens"})
    def complete(self, request):
        text = "".join(message.text or "" for message in request.messages) + repr(request.system)
        said = "librarian, ships, bridge" if all(
            part in text for part in ("like a librarian", "Ships float", "opened in 1931")
        ) else "prompt lost"
        usage = Usage(input_tokens=1, output_tokens=1)
        return Response(id=None, model=request.model, message=Message.assistant("[[ ## answer ## ]]\\n" + said),
                        finish_reason="stop", usage=usage)

class WordGrader:
    name, fingerprint = "words", "words-1"
    def score(self, question, texts):
        return [0.9 if "opened" in text else -0.8 for text in texts]

passages = [Passage("The Ardent Bridge opened in 1931. It is green.", id="a", title="Ardent Bridge"),
            Passage("Cats sleep most of the day.", id="b")]
program = CRAG(passages, WordGrader(), lambda query, max_results: ["A page."]).load(sys.argv[1])
with dspy.context(lm=dspy.LM("scripted/x", engine=Engine(), cache=False)):
    prediction = program(question="When did the Ardent Bridge open?")
print(json.dumps({"answer": prediction.answer, "action": prediction.action, "knowledge": prediction.knowledge,
                  "warnings": prediction.warnings, "state": program.dump_state()}))
"""


def test_a_fresh_process_gives_the_same_answer(tmp_path: Path, scripted_lm: Any) -> None:
    """Field case 18."""
    before = learned()
    before.save(tmp_path / "crag.json")
    ran = subprocess.run(
        [sys.executable, "-c", FRESH, str(tmp_path / "crag.json")], capture_output=True, text=True, check=True
    )
    fresh = json.loads(ran.stdout.splitlines()[-1])
    with dspy.context(lm=scripted_lm({"answer": fresh["answer"]})):
        here = before(question=QUESTION)
    assert fresh["answer"] == "librarian, ships, bridge"
    assert (fresh["action"], fresh["knowledge"], fresh["warnings"]) == (
        here.action,
        here.knowledge,
        here.warnings,
    )
    assert fresh["state"] == json.loads(json.dumps(before.dump_state()))


def test_lm_settings_come_back_without_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", KEY)
    program = learned()
    program.set_lm(
        dspy.LM(
            "openai/gpt-4o-mini",
            temperature=0.3,
            max_tokens=77,
            api_key=KEY,
            aws_secret_access_key=KEY,
            azure_ad_token=KEY,
            extra_headers={"Authorization": f"Bearer {KEY}"},
        )
    )
    program.save(tmp_path / "crag.json")
    assert KEY not in (tmp_path / "crag.json").read_text()
    lm = build().load(tmp_path / "crag.json").generate.lm
    assert (lm.model, lm.kwargs["temperature"], lm.kwargs["max_tokens"]) == ("openai/gpt-4o-mini", 0.3, 77)


def test_no_part_that_is_not_state_reaches_the_file(tmp_path: Path) -> None:
    """No pickle, no passage, no weight: JSON with the parameters only."""
    learned().save(tmp_path / "crag.json")
    state = json.loads((tmp_path / "crag.json").read_text())
    assert sorted(state) == ["corrective.rewrite", "corrective.settings", "generate", "metadata"]
    assert "1931" not in (tmp_path / "crag.json").read_text()


class Assistant(dspy.Module):
    """A user's program around ours."""

    def __init__(self) -> None:
        super().__init__()
        self.crag = build()
        self.tone = dspy.Predict("answer -> polite_answer")

    def forward(self, question: str) -> dspy.Prediction:
        return self.tone(answer=self.crag(question=question).answer)


def test_nested_in_another_module(tmp_path: Path) -> None:
    before = Assistant()
    before.crag = learned()
    before.save(tmp_path / "assistant.json")
    after = Assistant()
    after.load(tmp_path / "assistant.json")
    assert after.crag.dump_state() == before.crag.dump_state()


def test_a_generator_that_was_compiled_alone_is_saved_with_the_rest(tmp_path: Path) -> None:
    """DSPy leaves the state of a compiled sub-module out of the whole's, and it would be lost without a word."""
    before = CRAG(PASSAGES, WordGrader(), generate=dspy.ChainOfThought("context, question -> answer"))
    before.generate.predict.demos = [dspy.Example(context="c", question="q", reasoning="r", answer="a")]
    before.generate._compiled = True
    before.save(tmp_path / "crag.json")
    assert before.generate._compiled is True
    after = CRAG(PASSAGES, WordGrader(), generate=dspy.ChainOfThought("context, question -> answer"))
    after.load(tmp_path / "crag.json")
    assert [demo["answer"] for demo in after.generate.predict.demos] == ["a"]


@pytest.mark.parametrize("make", [build, lambda: SelfCRAG(PASSAGES, WordGrader()), lambda: RAG(PASSAGES)])
def test_every_program_round_trips(make: Callable[[], Any], tmp_path: Path) -> None:
    before = make()
    for _, predictor in before.named_predictors():
        predictor.signature = predictor.signature.with_instructions("Learned.")
    before.save(tmp_path / "x.json")
    assert make().load(tmp_path / "x.json").dump_state() == before.dump_state()


# Older files


def test_a_file_from_before_a_setting_existed_gets_its_default(tmp_path: Path) -> None:
    learned().save(tmp_path / "crag.json")
    changed(tmp_path / "crag.json", lambda state: state["corrective.settings"].pop("no_evidence"))
    after = build().load(tmp_path / "crag.json")
    assert (after.settings.no_evidence, after.settings.k) == ("abstain", 7)


def test_a_file_from_before_there_were_settings_leaves_them(tmp_path: Path) -> None:
    learned().save(tmp_path / "crag.json")
    changed(tmp_path / "crag.json", lambda state: state.pop("corrective.settings"))
    after = build(upper=0.1, k=4).load(tmp_path / "crag.json")
    assert (after.settings.upper, after.settings.k) == (0.1, 4)
    assert after.generate.signature.instructions == "Answer like a librarian."


def test_a_file_without_metadata_is_read(tmp_path: Path) -> None:
    learned().save(tmp_path / "crag.json")
    changed(tmp_path / "crag.json", lambda state: state.pop("metadata"))
    assert build().load(tmp_path / "crag.json").settings.k == 7


# Wrong files


def _set(name: str, value: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda state: state["corrective.settings"].update({name: value})


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (_set("upper", float("nan")), "upper"),
        (_set("upper", None), "upper"),
        (_set("lower", 0.9), "lower must not be above upper"),
        (_set("lower", "-0.5"), "lower"),
        (_set("policy", "majority"), "policy must be one of max, vote, got 'majority'"),
        (_set("k", 0), "k must be"),
        (_set("uper", 0.3), "did you mean 'upper'"),
        (lambda state: state.update({"corrective.settings": [1]}), "corrective.settings must be an object"),
        (lambda state: state.pop("generate"), "it lacks generate"),
        (lambda state: state.update({"reflect": {}}), "it has reflect"),
        (lambda state: state.update({"generate": "x"}), "generate must be an object"),
        (lambda state: state["generate"].pop("signature"), "generate.signature"),
        (lambda state: state["generate"]["signature"]["fields"].pop(), "must have 3 fields"),
        (lambda state: state["generate"]["signature"]["fields"][0].pop("prefix"), "context"),
        (lambda state: state["generate"].update({"demos": ["a demo"]}), "generate.demos"),
        (lambda state: state["generate"].update({"lm": "openai/gpt-4o-mini"}), "generate.lm"),
    ],
)
def test_a_wrong_file_is_named_and_changes_nothing(
    change: Callable[[dict[str, Any]], Any], named: str, tmp_path: Path
) -> None:
    """Field case 2, read from a file."""
    learned().save(tmp_path / "crag.json")
    changed(tmp_path / "crag.json", change)
    program = build(upper=0.3, k=3)
    before = program.dump_state()
    with pytest.raises(StateError) as caught:
        program.load(tmp_path / "crag.json")
    assert "crag.json" in str(caught.value)
    assert named in str(caught.value)
    assert program.dump_state() == before


@pytest.mark.parametrize("text", ["", "{", '{"generate": ', "[1, 2]", "null", "\x00\x01", '"text"'])
def test_a_truncated_or_foreign_file_changes_nothing(text: str, tmp_path: Path) -> None:
    (tmp_path / "crag.json").write_text(text)
    program = learned()
    before = program.dump_state()
    with pytest.raises(StateError, match=r"crag\.json"):
        program.load(tmp_path / "crag.json")
    assert program.dump_state() == before


def test_a_file_cut_anywhere_changes_nothing(tmp_path: Path) -> None:
    learned().save(tmp_path / "whole.json")
    whole = (tmp_path / "whole.json").read_bytes().rstrip()
    program = build()
    before = program.dump_state()
    for length in range(1, len(whole), 97):
        (tmp_path / "cut.json").write_bytes(whole[:length])
        with pytest.raises(StateError, match=r"cut\.json is not a complete JSON file"):
            program.load(tmp_path / "cut.json")
    assert program.dump_state() == before


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"cannot read .*none\.json: No such file"):
        build().load(tmp_path / "none.json")


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    learned().save(tmp_path / "crag.json")
    old = (tmp_path / "crag.json").read_bytes()
    program = learned()
    program.generate.demos = [dspy.Example(context=object(), question="q", answer="a")]
    with pytest.raises(RuntimeError):
        program.save(tmp_path / "crag.json")
    assert (tmp_path / "crag.json").read_bytes() == old
    assert os.listdir(tmp_path) == ["crag.json"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"cannot save .*crag\.json: there is no folder .*none"):
        learned().save(tmp_path / "none" / "crag.json")


# Another grader


def test_thresholds_on_another_grader_warn(tmp_path: Path, scripted_lm: Any, caplog: Any) -> None:
    """Field case 7."""
    learned().save(tmp_path / "crag.json")
    with caplog.at_level("WARNING", logger="crag_dspy"):
        program = build(WordGrader("other", "other-2")).load(tmp_path / "crag.json")
    assert "tuned on grader 'words'" in caplog.text
    with dspy.context(lm=scripted_lm({"answer": "1931"})):
        prediction = program(question=QUESTION)
    (warning,) = prediction.warnings
    assert "words-1" in warning
    assert "other-2" in warning
    assert "search thresholds again" in warning


def test_thresholds_on_their_own_grader_do_not(tmp_path: Path, scripted_lm: Any, caplog: Any) -> None:
    learned().save(tmp_path / "crag.json")
    with caplog.at_level("WARNING", logger="crag_dspy"):
        program = build().load(tmp_path / "crag.json")
    with dspy.context(lm=scripted_lm({"answer": "1931"})):
        assert program(question=QUESTION).warnings == []
    assert caplog.text == ""


def test_the_retriever_alone_round_trips(tmp_path: Path) -> None:
    before = CorrectiveRetriever(PASSAGES, WordGrader(), upper=0.2, lower=-0.2)
    before.save(tmp_path / "r.json")
    assert CorrectiveRetriever(PASSAGES, WordGrader()).load(tmp_path / "r.json").settings == before.settings
