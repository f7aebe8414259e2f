"""The image: linted, and its steps run in a clean environment, because a daemon may be missing."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.requirements import skip_or_fail


def instructions(project: Path) -> list[tuple[str, str]]:
    """The instructions of the Dockerfile with their arguments."""
    text = (project / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines]


def test_the_linter_has_no_complaint(starts_processes: None, project: Path) -> None:
    linter = Path(sys.executable).parent / "hadolint"
    if not linter.is_file():
        skip_or_fail("hadolint is not installed")
    done = subprocess.run([str(linter), str(project / "Dockerfile")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_command_runs_as_a_user_without_rights_and_keeps_its_files_in_volumes(project: Path) -> None:
    given = dict(instructions(project))
    assert int(given["USER"]) > 0
    assert json.loads(given["ENTRYPOINT"]) == ["advisor"]
    volumes = json.loads(given["VOLUME"])
    written = [given["WORKDIR"] + "/runs", *re.findall(r"ADVISOR_CACHE_DIR=(\S+)", given["ENV"])]
    assert sorted(volumes) == sorted(written)


def test_a_development_container_has_the_set_up_of_the_project(project: Path) -> None:
    told = json.loads((project / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))
    target = told["postCreateCommand"].removeprefix("make ")
    assert target == ".venv/.dev"
    assert "$(VENV)/.dev:" in (project / "Makefile").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_build_gives_a_command_that_writes_no_more(starts_processes: None, project: Path, tmp_path: Path) -> None:
    source, there = tmp_path / "src", tmp_path / "advisor"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=project, capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if not name.startswith(("tests/", "benchmarks/")) and (project / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(project / name, source / name)
    plain = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "ADVISOR_CACHE_DIR": str(tmp_path / "cache")}
    plain |= {name: value for name, value in os.environ.items() if name.lower().startswith(("pip_", "http", "ssl"))}
    build = [argument for name, argument in instructions(project) if name == "RUN"][:2]
    for command in build:
        step = command.replace("/opt/advisor", str(there))
        done = subprocess.run(["bash", "-c", step], cwd=source, env=plain, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
    empty = tmp_path / "work"
    empty.mkdir(mode=0o555)
    found = [str(there / "bin" / "advisor"), "plan", "--budget", "50ms"]
    said = subprocess.run(found, cwd=empty, env=plain, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert not list(empty.iterdir())
