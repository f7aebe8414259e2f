"""The commands of ``docs/scheduling.md``, run as they stand."""

import configparser
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from advisor.engine.history.changes import host_manifest
from tests.conftest import PROJECT
from tests.predictor import REQUEST, own_profile, rows
from tests.requirements import skip_or_fail
from tests.run_folders import write_run

pytestmark = pytest.mark.integration


def blocks(language: str) -> list[str]:
    page = (PROJECT / "docs" / "scheduling.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """``~/models`` with a run and a device of the team's."""
    folder = tmp_path / "models"
    folder.mkdir()
    own_profile(folder / "devices")
    write_run(folder / "runs", rows(), request=REQUEST, manifest=host_manifest({}))
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    if not (Path(sys.executable).parent / "advisor").is_file():
        skip_or_fail("the command is not installed beside the interpreter")
    return {**os.environ, "PATH": path, "HOME": str(tmp_path), "ADVISOR_CACHE_DIR": str(tmp_path / "cache")}


def shell(script: str, environment: dict[str, str], cwd: Path, *flags: str, code: int = 0) -> str:
    """Run a script, check its exit code and return what it printed."""
    command = ["bash", *flags, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=cwd, timeout=300, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout


def test_cron_prints_what_changed_and_is_quiet_the_next_night(models: Path, environment: dict[str, str]) -> None:
    (table,) = blocks("cron")
    line = next(line for line in table.splitlines() if line[0].isdigit())
    command = line.split(maxsplit=5)[5]
    assert "The pick changed from inception_v3_299" in shell(command, environment, models.parent)
    assert shell(command, environment, models.parent) == ""


def test_the_systemd_service_fails_with_four_when_something_changed(models: Path, environment: dict[str, str]) -> None:
    service, timer = blocks("ini")
    units = configparser.ConfigParser(interpolation=None)
    units.optionxform = str  # type: ignore[assignment,method-assign]
    units.read_string(service)
    folder = units["Service"]["WorkingDirectory"].replace("%h", environment["HOME"])
    command = shlex.join(shlex.split(units["Service"]["ExecStart"]))
    for code in (4, 0):
        shell(command, environment, Path(folder), code=code)
    units.read_string(timer)
    assert units["Timer"]["OnCalendar"]


def test_the_workflow_tells_the_team_once(models: Path, environment: dict[str, str], tmp_path: Path) -> None:
    workflow: dict[str, Any] = yaml.safe_load(blocks("yaml")[0])
    steps = {step.get("name"): step for step in workflow["jobs"]["reevaluate"]["steps"]}
    for command in ("init -q", "add -A", "-c user.name=x -c user.email=x@example.com commit -q -m start"):
        subprocess.run(["git", *command.split()], cwd=models, check=True)
    environment |= {"GITHUB_OUTPUT": str(tmp_path / "output"), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
    codes = []
    for _night in range(2):
        (tmp_path / "output").write_text("")
        shell(steps["Ask again"]["run"], environment, models, "-e", "-o", "pipefail")
        codes.append((tmp_path / "output").read_text().strip())
        shell(steps["Keep what was made"]["run"], environment, models, "-e")
    assert codes == ["code=4", "code=0"]
    assert steps["Tell the team"]["if"] == "steps.again.outputs.code == '4'"
    assert "The pick changed" in (tmp_path / "summary").read_text()
    log = subprocess.run(["git", "log", "--format=%s"], cwd=models, capture_output=True, text=True, check=True)
    assert log.stdout.split() == ["Re-evaluated", "start"]


def test_a_wrong_call_does_not_look_like_a_change(environment: dict[str, str], tmp_path: Path) -> None:
    workflow: dict[str, Any] = yaml.safe_load(blocks("yaml")[0])
    step = next(step for step in workflow["jobs"]["reevaluate"]["steps"] if step.get("id") == "again")
    environment |= {"GITHUB_OUTPUT": str(tmp_path / "output"), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
    shell(step["run"], environment, tmp_path, "-e", "-o", "pipefail", code=1)
    assert (tmp_path / "output").read_text() == "code=2\n"


def test_the_single_command_runs(models: Path, environment: dict[str, str]) -> None:
    command = next(block for block in blocks("sh") if block.startswith("advisor"))
    shell(command, environment, models, code=4)


@pytest.fixture
def action() -> dict[str, Any]:
    """``action.yml``."""
    loaded: dict[str, Any] = yaml.safe_load((PROJECT / "action.yml").read_text(encoding="utf-8"))
    return loaded


def test_the_action_comments_and_fails_with_four_once(
    action: dict[str, Any], models: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    steps = {step["name"]: step["run"] for step in action["runs"]["steps"]}
    environment |= {name.upper(): str(given["default"]) for name, given in action["inputs"].items()}
    environment |= {"PROFILES": "devices", "ACTION": str(PROJECT), "RUNNER_TEMP": str(tmp_path)}
    environment |= {name: str(tmp_path / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    commented = tmp_path / "gh"
    commented.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\ncp "$5" {tmp_path}/commented\n')
    commented.chmod(0o755)
    shell(steps["Install"], environment, models, "-e")
    for code in (4, 0):
        shell(steps["Ask again"], environment, models, "-e", "-o", "pipefail")
        outputs = dict(line.split("=", 1) for line in (tmp_path / "GITHUB_OUTPUT").read_text().splitlines())
        assert outputs["code"] == str(code)
        fails = {**environment, "CODE": outputs["code"]}
        shell(steps["Fail if a recommendation changed"], fails, models, "-e", code=code)
        if code == 4:
            own = {"PATH": f"{tmp_path}:{environment['PATH']}", "NUMBER": "7", "COMMENT": outputs["comment"]}
            shell(steps["Comment"], environment | own, models, "-e")
    assert (tmp_path / "arguments").read_text().startswith("pr comment 7 --body-file")
    assert "The pick changed" in (tmp_path / "commented").read_text()
    assert (tmp_path / "GITHUB_STEP_SUMMARY").read_text().startswith((tmp_path / "commented").read_text())


def test_no_input_of_the_action_becomes_a_part_of_a_script(action: dict[str, Any]) -> None:
    assert not [step["name"] for step in action["runs"]["steps"] if "${{" in step["run"]]
