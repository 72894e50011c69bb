"""crag.toml: what is accepted, what is refused and how, and that live parts come out."""

from __future__ import annotations

import inspect
import json
import os
from pathlib import Path
from typing import Any

import dspy
import pytest

from crag_dspy.actions import Action
from crag_dspy.config.parts import (
    KINDS,
    EmbeddingPart,
    IndexSearchPart,
    LMGraderPart,
    LocalLMPart,
    LocalPart,
    T5Part,
    TavilyPart,
    WeaviatePart,
)
from crag_dspy.config.reading import build, language_model, load_config
from crag_dspy.errors import ConfigError
from crag_dspy.retrievers.local import LocalIndex

PASSAGES = [
    {"id": "a", "title": "Tower", "text": "The tower of Pisa leans. It was begun in 1173."},
    {"id": "b", "title": "Bridge", "text": "The bridge was opened in 1890."},
]


def by_words(question: str, texts: list[str]) -> list[float | None]:
    """A grader that a configuration can name: 1 where all long words of the question are in the text, else -1."""
    words = [word.strip("?").lower() for word in question.split() if len(word) > 4]
    return [1.0 if all(word in text.lower() for word in words) else -1.0 for text in texts]


def lists(**arguments: Any) -> Any:
    return [row["text"] for row in PASSAGES][: arguments.get("most", 2)]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an index, and with this module importable under a name that a file can give."""
    LocalIndex.create(tmp_path / "docs", embedder=None).add(PASSAGES)
    (tmp_path / "parts_for_config.py").write_text(
        "from typing import Any\n"
        + inspect.getsource(by_words)
        + f"PASSAGES = {PASSAGES!r}\n"
        + inspect.getsource(lists),
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def write(folder: Path, text: str) -> Path:
    path = folder / "crag.toml"
    path.write_text(text, encoding="utf-8")
    return path


WHOLE = """
[retriever]
path = "docs"
[grader]
kind = "python:parts_for_config:by_words"
[search]
kind = "index"
path = "docs"
mode = "text"
[settings]
k = 3
upper = 0.5
lower = -0.5
rewrite = false
"""


def test_a_program_is_built_from_a_file_wherever_it_is_run(
    here: Path, scripted_lm: Any, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = write(here, WHOLE)
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    crag = build(load_config(path))
    with dspy.context(lm=scripted_lm({"answer": "1173"})):
        prediction = crag(question="When was the leaning tower begun? ")
    assert (crag.settings.k, crag.settings.upper) == (3, 0.5)
    assert prediction.action is Action.INCORRECT  # "leaning" is in no text
    assert [page.url for page in prediction.trace.web_passages] == ["index:a", "index:b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[retreiver]\npath = 'docs'", r"unknown table \[retreiver\]: did you mean 'retriever'"),
        ("[retriever]\npth = 'docs'", "unknown key 'pth' for kind 'local': did you mean 'path'"),
        (
            "[retriever]\nkind = 'locl'\npath = 'docs'",
            "kind must be one of local, weaviate.*did you mean 'local'",
        ),
        ("[retriever]\nkind = 3", "kind must be one of"),
        ("[retriever]\nkind = 'python'", "python:package.module:attribute"),
        ("[retriever]", "path is missing, which kind 'local' needs"),
        ("[retriever]\npath = 3", "path: .*got 3"),
        ("[retriever]\npath = 'docs'\nmode = 'hybird'", "mode: input should be 'hybrid', 'text' or 'vector'"),
        ("[search]\npath = 'docs'", r"\[search\] kind must be one of tavily, index.*got none"),
        ("[search]\nkind = 'tavily'\nretries = true", "retries: .*got True"),
        ("[settings]\nuper = 0.5", r"\[settings\] unknown setting 'uper': did you mean 'upper'"),
        ("[settings]\nlower = 0.995", "lower must not be above upper"),
        ("[settings]\nk = 0", "k must be a whole number, at least 1"),
        ("retriever = 'docs'", r"retriever must be a table: write \[retriever\]"),
        ("program = 3", "program must be the path of a saved program"),
        ("[retriever\n", "not TOML"),
    ],
)
def test_what_is_wrong_is_named_with_its_file_and_the_nearest_right_thing(
    tmp_path: Path, text: str, message: str
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError, match=message) as raised:
        load_config(path)
    assert str(path) in str(raised.value)


def test_a_missing_file_and_a_folder_are_errors_of_configuration(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(ConfigError, match="cannot read the configuration"):
            load_config(path)


def test_a_byte_order_mark_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "crag.toml").write_bytes(b"\xef\xbb\xbf[settings]\nk = 4\n")
    assert load_config(tmp_path / "crag.toml").settings == {"k": 4}


PLANTED = "tvly-dev-1a2B3c4D5e6F7g8H9i0J"
PLAIN = "correcthorsebattery"  # a key that no pattern knows
HEX = "deadbeef0123456789abcdef01234567"


@pytest.mark.parametrize(
    "text",
    [
        f"[search]\nkind = 'tavily'\nkey = '{PLANTED}'",
        f"[search]\nkind = 'tavily'\napi_key = '{PLANTED}'",
        f"[search]\nkind = 'tavily'\nkey_env = '{PLANTED}'",
        f"[search]\nkind = 'tavily'\ninclude_domains = ['{PLANTED}']",
        f"[retriever]\nkind = 'python:m:a'\n[retriever.arguments]\npassword = '{PLANTED}'",
        f"[retriever]\nkind = 'weaviate'\nurl = 'http://u:{PLANTED}@h'\ncollection = 'C'",
        f"[retriever]\nkind = 'weaviate'\nurl = 'h'\ncollection = 'C'\nheaders.X-OpenAI-Api-Key = '{PLANTED}'",
        f"[lm]\nmodel = 'openai/x'\ntoken = '{PLANTED}'",
        # What a hand types that has not read the manual.
        f"lm = '{PLANTED}'",
        f"[{PLANTED}]\nx = 1",
        f"[lm]\nmodel = 'openai/x'\n{PLANTED} = 1",
        f"[lm]\nmodel = 'openai/x'\n[lm.api_key]\nvalue = '{PLAIN}'",
        f"[lm]\nmodel = 'openai/x'\nheaders = '{PLAIN}'",
        f"[lm]\nmodel = 'openai/x'\nkeys = ['{PLAIN}']",
        f"[api_key]\nopenai = '{PLAIN}'",
        f"api_key = '{PLAIN}'",
        f"[lm]\nmodel = 'openai/x'\nkey_env = '{HEX}'",
        f"[search]\nkind = 'tavily'\nkey_env = '{HEX.upper()}'",
        f"[lm]\nmodel = 'openai/x'\napi_base = 'https://h/v1?api-key={PLAIN}'",
        f"[lm]\nmodel = 'openai/x'\napi_base = 'https://h/v1?code={HEX}'",
        f"[lm]\nmodel = 'openai/x'\napi_base = 'https://{PLAIN}@h/v1'",
        f"[lm]\nmodel = 'openai/x'\napi_base = 'h/v1?key={PLAIN}'",
        f"[retriever]\npath = 'docs'\nembedder = '{HEX}'",
        "[lm]\nmodel = 'openai/x'\napi_key = 12345678901234567890",
    ],
)
def test_a_key_in_the_file_is_refused_and_not_repeated(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="environment") as raised:
        load_config(write(tmp_path, text))
    assert not any(key in str(raised.value) for key in (PLANTED, PLAIN, HEX, HEX.upper(), "1234567890"))


def test_a_misspelt_number_is_no_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown key 'max_token' .*did you mean 'max_tokens'"):
        load_config(write(tmp_path, "[lm]\nmodel = 'openai/x'\nmax_token = 300"))


def test_names_of_fields_and_variables_are_no_keys(tmp_path: Path) -> None:
    config = load_config(
        write(
            tmp_path,
            "[retriever]\nkind = 'weaviate'\nurl = 'http://localhost:8080'\ncollection = 'C'\n"
            "key_env = 'MY_WEAVIATE'\nfilters = {token = 'a'}\nheaders = {X-OpenAI-Api-Key = 'OPENAI_API_KEY'}\n"
            "[lm]\nmodel = 'openai/gpt-4o-mini'\nmax_tokens = 300\n",
        )
    )
    assert set(config.parts) == {"retriever", "lm"}


def test_a_key_comes_from_the_variable_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAVILY_API_KEY", raising=False)
    config = load_config(write(tmp_path, "[search]\nkind = 'tavily'\nkey_env = 'MY_TAVILY'"))
    with pytest.raises(
        ConfigError, match="key_env names the environment variable MY_TAVILY, which is not set"
    ):
        config.parts["search"].make()
    monkeypatch.setenv("MY_TAVILY", PLANTED)
    search = config.parts["search"].make()
    assert "with a key" in repr(search)
    assert PLANTED not in repr(search) + repr(config)


def test_a_value_out_of_range_names_file_and_table(here: Path) -> None:
    path = write(
        here, WHOLE.replace('kind = "index"\npath = "docs"\nmode = "text"', "kind = 'tavily'\nretries = -1")
    )
    with pytest.raises(ConfigError, match=r"crag.toml: \[search\] retries must be"):
        build(load_config(path))
    path = write(here, "[retriever]\npath = 'nowhere'")
    with pytest.raises(ConfigError, match=r"crag.toml: \[retriever\] .*nowhere holds no index"):
        build(load_config(path))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("python:no_such_module:x", "no module 'no_such_module': install it, or set PYTHONPATH"),
        ("python:parts_for_config:nothing", "parts_for_config has no nothing"),
        ("python:parts_for_config", "must be like"),
        ("python:parts_for_config:PASSAGES", "as a grader"),
    ],
)
def test_an_object_of_python_that_is_not_there_or_not_a_part(here: Path, kind: str, message: str) -> None:
    path = write(here, f"[retriever]\npath = 'docs'\n[grader]\nkind = '{kind}'")
    with pytest.raises(ConfigError, match=message):
        build(load_config(path))


def test_an_object_of_python_is_taken_as_it_is_or_called_with_its_arguments(here: Path) -> None:
    grader = "[grader]\nkind = 'python:parts_for_config:by_words'\n"
    asis = write(here, grader + "[retriever]\nkind = 'python:parts_for_config:PASSAGES'")
    assert [p.id for p in build(load_config(asis)).corrective.retrieve(query="bridge", k=5)] == ["b"]
    called = write(
        here, grader + "[retriever]\nkind = 'python:parts_for_config:lists'\n[retriever.arguments]\nmost = 1"
    )
    assert build(load_config(called)).corrective.retrieve(query="bridge opened", k=5) == []


def test_a_program_in_the_file_is_overruled_by_its_settings_and_those_by_the_command_line(here: Path) -> None:
    crag = build(load_config(write(here, WHOLE)))
    crag.settings.update({"k": 7, "top_n": 2})
    crag.save(str(here / "seven.json"))
    crag.settings.update({"k": 9})
    crag.save(str(here / "nine.json"))
    config = load_config(write(here, 'program = "seven.json"\n' + WHOLE))
    assert (build(config).settings.k, build(config).settings.top_n) == (3, 2)
    assert build(config, program=here / "nine.json").settings.k == 9
    with pytest.raises(ConfigError, match=r"no saved program .*eight\.json"):
        build(config, program=here / "eight.json")


def test_the_language_model_and_its_adapter_hold_inside_only(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", PLANTED)
    config = load_config(
        write(
            here, "[lm]\nmodel = 'openai/some-model'\nkey_env = 'MY_KEY'\nmax_tokens = 50\nadapter = 'json'"
        )
    )
    before = dspy.settings.lm
    with language_model(config) as lm:
        assert dspy.settings.lm is lm
        assert (lm.model, lm.kwargs["max_tokens"]) == ("openai/some-model", 50)
        assert isinstance(dspy.settings.adapter, dspy.JSONAdapter)
    assert dspy.settings.lm is before
    with language_model(load_config(write(here, WHOLE))) as lm:
        assert lm is before


def test_the_key_of_a_file_is_an_argument_of_the_part(tmp_path: Path) -> None:
    """The tables cannot drift from the classes that they configure."""
    from crag_dspy.graders.embedding import EmbeddingGrader
    from crag_dspy.graders.lm import LMGrader
    from crag_dspy.graders.t5 import T5Grader
    from crag_dspy.lms.local import local_lm
    from crag_dspy.retrievers.weaviate import WeaviateRetriever
    from crag_dspy.retrievers.weaviate_connect import Remote
    from crag_dspy.websearch.tavily import TavilySearch

    for part, makers, others in (
        (LocalPart, [LocalIndex.open], set()),
        (IndexSearchPart, [LocalIndex.open], set()),
        (WeaviatePart, [WeaviateRetriever, Remote], {"key_env"}),
        (T5Part, [T5Grader.from_pretrained], set()),
        (EmbeddingPart, [EmbeddingGrader], set()),
        (LMGraderPart, [LMGrader.__init__], {"model"}),
        (TavilyPart, [TavilySearch], {"key_env"}),
        (LocalLMPart, [local_lm], {"path", "adapter", "cache"}),
    ):
        taken = {name for maker in makers for name in inspect.signature(maker).parameters}
        assert set(part.model_fields) - {"kind"} - others <= taken, part.__name__


def test_every_kind_says_what_it_is() -> None:
    for kinds in KINDS.values():
        for part in kinds.values():
            assert part.__doc__


def test_a_saved_program_of_a_configuration_holds_no_key(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", PLANTED)
    monkeypatch.setenv("MY_KEY", PLANTED)
    text = WHOLE.replace('kind = "index"\npath = "docs"\nmode = "text"', "kind = 'tavily'")
    config = load_config(write(here, text + "[lm]\nmodel = 'openai/some-model'\nkey_env = 'MY_KEY'"))
    with language_model(config) as lm:
        crag = build(config)
        crag.set_lm(lm)
        crag.save(str(here / "crag.json"))
    saved = (here / "crag.json").read_text(encoding="utf-8")
    assert json.loads(saved)
    assert PLANTED not in saved
    assert os.environ["MY_KEY"] == PLANTED
