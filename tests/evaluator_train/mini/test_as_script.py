"""How the scripts beside the package end."""

from __future__ import annotations

import pytest

from crag_dspy.errors import ConfigError
from crag_dspy.evaluator_train.mini.as_script import run_script


def test_what_a_user_can_mend_is_one_line_and_status_two(capsys: pytest.CaptureFixture[str]) -> None:
    def main() -> int:
        raise ConfigError("there is no folder: name another")

    assert run_script(main) == 2
    assert capsys.readouterr() == ("", "error: there is no folder: name another\n")


def test_otherwise_the_status_is_the_scripts_own() -> None:
    assert (run_script(lambda: 1), run_script(lambda: None)) == (1, 0)
