"""What is not UTF-8 is recognised: the encodings in which Chinese, Japanese, Korean and European files come."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.errors import ConfigError
from crag_dspy.files.encodings import SAMPLE, decoded

TEXTS = {
    "gb18030": "武汉长江大桥建成于一九五七年，全长一千六百七十米，是长江上的第一座大桥。",
    "big5": "臺北是臺灣最大的城市之一，高度為五百零八公尺，管理員需要設定連接埠。",
    "cp932": "東京タワーは1958年に完成しました。高さは333メートルです。",
    "euc_jp": "東京タワーは1958年に完成しました。高さは333メートルです。",
    "cp949": "서울은 대한민국의 수도이다. 인구는 약 940만 명이다.",
    "cp1251": "Москва является столицей России. Город основан в 1147 году.",
    "cp1250": "Zażółć gęślą jaźń. Łódź jest miastem w Polsce.",
    "cp1252": "Le café a été fermé à Noël par décision du préfet.",
    "utf-16": "The bridge was opened in 1957.",
    "utf-32": "The bridge was opened in 1957.",
}


@pytest.mark.parametrize("encoding", TEXTS)
def test_a_few_sentences_tell_their_encoding(encoding: str) -> None:
    text = TEXTS[encoding]
    for given_text in (text, "ASCII only. " * 10_000 + "\n" + text):
        found = decoded(given_text.encode(encoding))
        assert found.text == given_text


def test_a_long_file_is_recognised_by_a_part_of_it() -> None:
    text = (TEXTS["gb18030"] + "\n") * 3000
    raw = text.encode("gb18030")
    assert len(raw) > 2 * SAMPLE
    assert decoded(raw) == (text, "gb18030")


def test_a_byte_that_does_not_fit_is_named() -> None:
    raw = TEXTS["gb18030"].encode("gb18030") * 20 + b"\xff\xff"
    with pytest.raises(ConfigError, match=rf"nor all gb18030 \(byte {len(raw) - 2}\)"):
        decoded(raw)


@given(st.text(st.characters(codec="utf-8")))
def test_utf8_stays_what_it_is(text: str) -> None:
    found = decoded(text.encode())
    assert found == (text.removeprefix("\ufeff"), "utf-8")


@given(st.binary(max_size=300))
def test_any_bytes_are_text_or_an_error_that_says_what_to_do(raw: bytes) -> None:
    try:
        text, encoding = decoded(raw)
    except ConfigError:
        return
    assert raw.decode(encoding).removeprefix("\ufeff") == text


@pytest.mark.parametrize("raw", ["一座桥。".encode() * 50 + b"\xff", b"\x89PNG\x00\xff"])
def test_what_is_damaged_is_not_read_as_something_else(raw: bytes) -> None:
    with pytest.raises(ConfigError, match="convert it to UTF-8"):
        decoded(raw)
