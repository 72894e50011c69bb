"""The header reader, on small files written here by the format's own rules, and on what is not such a file."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.errors import ArtefactError
from crag_dspy.lms.gguf import read_gguf

_U32, _F32, _BOOL, _STRING, _ARRAY, _U64 = 4, 6, 7, 8, 9, 10
_CODES = {_U32: "<I", _F32: "<f", _BOOL: "<?", _U64: "<Q"}


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind: int, item) -> bytes:
    if kind == _STRING:
        return text(item)
    if kind == _ARRAY:
        inner, items = item
        return struct.pack("<IQ", inner, len(items)) + b"".join(value(inner, each) for each in items)
    return struct.pack(_CODES[kind], item)


def gguf(fields: dict[str, tuple], version: int = 3) -> bytes:
    head = struct.pack("<4sIQQ", b"GGUF", version, 0, len(fields))
    return head + b"".join(
        text(key) + struct.pack("<I", kind) + value(kind, item) for key, (kind, item) in fields.items()
    )


TINY = {
    "general.architecture": (_STRING, "llama"),
    "general.name": (_STRING, "Tiny"),
    "general.file_type": (_U32, 15),
    "tokenizer.ggml.scores": (_ARRAY, (_F32, [0.0, 1.0, 2.0])),
    "tokenizer.ggml.tokens": (_ARRAY, (_STRING, ["<s>", "héllo", "<|end|>"])),
    "tokenizer.ggml.token_type": (_ARRAY, (_U32, [3, 1, 3])),
    "tokenizer.ggml.merges": (_ARRAY, (_STRING, ["a b"])),
    "some.nested": (_ARRAY, (_ARRAY, [(_U32, [1, 2]), (_STRING, ["x"])])),
    "tokenizer.ggml.add_bos_token": (_BOOL, True),
    "llama.context_length": (_U64, 2048),
    "tokenizer.chat_template": (_STRING, "{{ '<start_of_turn>user\n' }}[INST] {% if a < b %}"),
}


@pytest.fixture
def write(tmp_path):
    def put(data: bytes):
        path = tmp_path / "tiny-model.gguf"
        path.write_bytes(data)
        return path

    return put


@pytest.mark.parametrize("version", [2, 3])
def test_what_a_file_says_about_itself(write, version):
    header = read_gguf(write(gguf(TINY, version)))
    assert (header.name, header.architecture, header.quantisation) == ("Tiny", "llama", "Q4_K_M")
    assert header.context_length == 2048
    assert header.control_tokens == {"<s>", "<|end|>", "<start_of_turn>", "[INST]"}


def test_a_base_model_has_no_template_and_an_unnamed_one_the_name_of_its_file(write):
    header = read_gguf(write(gguf({"general.architecture": (_STRING, "llama")})))
    assert header.chat_template == ""
    assert header.name == "tiny-model"
    assert header.context_length == 0


def test_another_content_is_another_fingerprint(write):
    first = read_gguf(write(gguf(TINY) + b"weights-a")).fingerprint
    assert first == read_gguf(write(gguf(TINY) + b"weights-a")).fingerprint
    assert first != read_gguf(write(gguf(TINY) + b"weights-b")).fingerprint


@pytest.mark.parametrize("data", [b"", b"GG", b"PK\x03\x04" + bytes(60), gguf(TINY, version=1)])
def test_what_is_not_a_model_is_refused_by_name(write, data):
    with pytest.raises(ArtefactError, match=r"tiny-model\.gguf is not a GGUF model file"):
        read_gguf(write(data))


@given(cut=st.integers(min_value=0, max_value=len(gguf(TINY)) - 1))
def test_a_download_that_stopped_is_refused(tmp_path_factory, cut):
    path = tmp_path_factory.mktemp("cut") / "cut.gguf"
    path.write_bytes(gguf(TINY)[:cut])
    with pytest.raises(ArtefactError):
        read_gguf(path)


def test_a_length_beyond_the_file_is_refused_without_reading_it(write):
    data = gguf({"tokenizer.ggml.tokens": (_ARRAY, (_STRING, ["x"]))})
    with pytest.raises(ArtefactError):
        read_gguf(write(data.replace(text("x"), struct.pack("<Q", 1 << 62) + b"x")))
