"""Keys in texts: whole, in pieces, masked, escaped; given, in the environment, in a language model."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.errors import cause_of
from crag_dspy.live.keys import PIECE, SECRET_NAME, without_keys
from crag_dspy.live.secret import Secret

KEY = "sk-proj-aB3/dE6+gH9jK2mN5pQ8"


@pytest.fixture(params=["variable", "language model", "argument"], autouse=True)
def known(request: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("crag_dspy.live.keys._given", set())
    if request.param == "variable":
        monkeypatch.setenv("OPENAI_API_KEY", KEY + "\n")
        yield
    elif request.param == "argument":
        Secret(KEY, "SERVICE_KEY")
        yield
    else:
        with dspy.context(lm=dspy.LM("openai/x", api_key=KEY)):
            yield


def longest_piece(text: str, key: str = KEY) -> int:
    """Characters of the longest piece of the key in the text."""
    sizes = range(len(key), 0, -1)
    return next((n for n in sizes if any(key[i : i + n] in text for i in range(len(key) - n + 1))), 0)


@pytest.mark.parametrize(
    "said",
    [
        f"Incorrect API key provided: {KEY}. Find yours at https://example.org/keys",
        f"Illegal header value b'Bearer {KEY}\\n'",
        f"Incorrect API key provided: {KEY[:11]}***************{KEY[-4:]}.",
        f"key {KEY[:12]} cut",
        f"key ...{KEY[-8:]}",
        f"{json.dumps({'headers': {'Authorization': 'Bearer ' + KEY}})}",
        f"https://h/v1?key={quote(KEY, safe='')}",
        f"Basic {base64.b64encode(('user:' + KEY).encode()).decode()}",
        f"Basic {base64.b64encode(('me:' + KEY).encode()).decode()}",
        f"{KEY.upper()} {KEY.lower()}",
        f"{KEY[:14]}\n{KEY[14:]}",
        KEY * 3,
    ],
)
def test_no_piece_of_a_key_is_told(said: str) -> None:
    told = cause_of(RuntimeError(said))
    assert "[key]" in told
    assert longest_piece(told) < PIECE
    assert longest_piece(told.lower(), KEY.lower()) < PIECE
    assert KEY[-4:] not in told
    for encoded in ("user:", "me:"):
        basic = base64.b64encode((encoded + KEY).encode()).decode()
        assert longest_piece(told, basic[len(encoded) + 4 :]) <= PIECE


def test_what_is_said_beside_it_stays() -> None:
    said = f"401: the key {KEY} was refused: see https://example.org/help"
    assert without_keys(said) == "401: the key [key] was refused: see https://example.org/help"


@given(
    st.text(max_size=20), st.integers(0, len(KEY) - PIECE), st.integers(PIECE, len(KEY)), st.text(max_size=20)
)
def test_a_piece_of_any_place_and_length(before: str, start: int, size: int, after: str) -> None:
    assert longest_piece(without_keys(before + KEY[start : start + size] + after)) < PIECE


def test_a_key_is_taken_out_before_the_text_is_cut() -> None:
    assert longest_piece(cause_of(RuntimeError("x" * 290 + KEY))) < PIECE


def test_an_error_that_cannot_be_read_is_an_error_like_others() -> None:
    class RudeError(Exception):
        def __str__(self) -> str:
            raise ValueError(KEY)

    assert cause_of(RudeError()) == "RudeError: (its message cannot be read: ValueError)"


def test_the_key_of_a_predictor_is_known_where_its_module_is_asked() -> None:
    module = dspy.Predict("question -> answer")
    module.lm = dspy.LM(
        "openai/x", api_key="another-key-0123456789", extra_headers={"x-custom": "heady-9876543210"}
    )
    said = cause_of(RuntimeError("another-key-0123456789 and heady-9876543210"), module)
    assert said == "RuntimeError: [key] and [key]"


def test_a_short_value_or_a_path_is_no_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("SOME_KEY", "true")
    monkeypatch.setenv("SSH_KEY", str(tmp_path))
    assert without_keys(f"true: {tmp_path}/a.txt") == f"true: {tmp_path}/a.txt"


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("OPENAI_API_KEY", True),
        ("HF_TOKEN", True),
        ("api-key", True),
        ("aws_secret_access_key", True),
        ("max_tokens", False),
        ("max_token", False),
        ("monkey", False),
        ("keyboard", False),
    ],
)
def test_names(name: str, secret: bool) -> None:
    assert bool(SECRET_NAME.search(name)) is secret
