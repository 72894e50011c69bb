"""The verbs of the package: there by name, imported when used, and no module's name."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import pytest

import crag_dspy.evaluator_train as package


def test_train_calibrate_and_benchmark_are_there() -> None:
    assert package.__all__ == ["benchmark", "calibrate", "train"]
    assert all(callable(getattr(package, name)) and name in dir(package) for name in package.__all__)
    assert set(package.__all__).isdisjoint(module.name for module in pkgutil.iter_modules(package.__path__))
    with pytest.raises(AttributeError, match="no attribute 'tune'"):
        _ = package.tune


def test_naming_them_needs_neither_torch_nor_scikit_learn() -> None:
    code = (
        "import sys; sys.modules['sklearn'] = None; "
        "from crag_dspy.evaluator_train import benchmark, calibrate, train; "
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]
