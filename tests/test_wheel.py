"""What ``pip install .`` gives: the command, with catalogues and profiles inside."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def wheel(starts_processes: None, project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(project)]
    subprocess.run(command, check=True, capture_output=True)
    return next(out.glob("advisor-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel; what it depends on is lent by this one, whose own ``advisor`` is not."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(pip, check=True, capture_output=True)
    return folder


def run(environment: Path, *command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    lent = {"PYTHONPATH": sysconfig.get_path("purelib"), "ADVISOR_CACHE_DIR": str(cwd / "cache")}
    program = str(environment / "bin" / command[0])
    return subprocess.run(
        [program, *command[1:]], cwd=cwd, env={**os.environ, **lent}, capture_output=True, text=True, timeout=120
    )


def test_the_wheel_holds_every_shipped_file(wheel: Path, project: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("catalogs", "device_profiles"):
        for path in (project / folder).rglob("*"):
            if path.is_file():
                assert f"advisor/_data/{path.relative_to(project)}" in held


def test_the_command_runs_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    where = run(installed, "python", "-c", "import advisor; print(advisor.__file__)", cwd=tmp_path)
    assert Path(where.stdout.strip()).is_relative_to(installed)
    assert run(installed, "advisor", "--version", cwd=tmp_path).stdout.startswith("advisor ")


def test_the_installed_catalogue_is_found(installed: Path, tmp_path: Path) -> None:
    said = run(installed, "advisor", "catalog", "show", "squeezenet_1.1_227", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "squeezenet" in said.stdout


def test_a_search_from_the_wheel_gets_as_far_as_the_weights(installed: Path, tmp_path: Path) -> None:
    said = run(installed, "advisor", "search", "--offline", "--budget", "50ms", cwd=tmp_path)
    assert said.returncode == 2
    assert "no weights can be had" in said.stderr
