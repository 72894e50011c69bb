"""The wheel: what it holds, and that it works where there is no source."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = {
    "crag_dspy": "crag_dspy",
    "signatures": "crag_dspy/signatures",
    "optimize": "crag_dspy/optimize",
    "evaluator_train": "crag_dspy/evaluator_train",
    "data": "crag_dspy/sample",
}

pytestmark = pytest.mark.slow


def copied(target: Path) -> Path:
    """The sources alone: a `build/` of an earlier version would ship what was deleted since."""
    for name in (*FOLDERS, "pyproject.toml", "README.md", "LICENSE"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)
    return target


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("setuptools", minversion="77", reason="building the wheel needs setuptools 77")
    source = copied(tmp_path_factory.mktemp("source") / "crag")
    out = tmp_path_factory.mktemp("wheel")
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        out,
        source,
    ]
    ended = subprocess.run(build, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    (made,) = out.glob("*.whl")
    return made


def test_the_wheel_holds_the_files_of_the_folders_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = {
        f"{target}/{path.relative_to(ROOT / folder).as_posix()}"
        for folder, target in FOLDERS.items()
        for path in (ROOT / folder).rglob("*")
        if path.is_file()
        and "__pycache__" not in path.parts
        # How the shipped grader was made: it runs from a checkout.
        and not path.is_relative_to(ROOT / "evaluator_train" / "mini")
    }
    assert held == expected


def test_the_wheel_says_what_the_project_says(wheel: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        about = archive.read(name).decode()
        (scripts,) = (name for name in archive.namelist() if name.endswith("/entry_points.txt"))
        assert "crag-dspy = crag_dspy.commands.cli:main" in archive.read(scripts).decode()
    assert f"\nVersion: {project['version']}\n" in about
    assert "\nLicense-Expression: MIT\n" in about


def test_the_installed_wheel_finds_its_data_and_its_own_packages(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    code = (
        "import crag_dspy, crag_dspy.sample, crag_dspy.signatures.answer, crag_dspy.optimize.metrics.answers\n"
        "from importlib import resources\n"
        "from crag_dspy.evaluator_train.training.recipe import recipe_names\n"
        "print(crag_dspy.__file__, len(crag_dspy.sample.questions()), *recipe_names())\n"
        "assert (resources.files('crag_dspy') / 'py.typed').is_file()\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(site), "PATH": "", "DSPY_CACHEDIR": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith(str(site))


def test_the_version_is_written_once_more_only_in_the_package() -> None:
    import crag_dspy

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert crag_dspy.__version__ == project["version"]
