"""The commands of ``docs/scheduling.md``, run as they stand."""

import configparser
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from advisor.devices._connections.tool import TOOLS
from advisor.engine._history.changes import host_manifest
from advisor.store._run_place import GITIGNORE
from tests.devices.test_adb import PRINTED
from tests.engine.targets.test_remote import tool_printing
from tests.makers.commands import Advisor, ended
from tests.makers.phones import PIXEL_8, Phone, adb, write_facts
from tests.places import PROJECT
from tests.predictor import REQUEST, own_profile, rows
from tests.run_folders import write_run

pytestmark = pytest.mark.integration
NIGHTLY = "reevaluate --all --since-last --profiles devices"
CHANGED = "The pick changed"


def blocks(language: str) -> list[str]:
    page = (PROJECT / "docs" / "scheduling.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """``~/models``, with a command ``advisor`` beside it that notes how it was called.

    It ends as the file ``code`` says; with 4, it makes a run and says that the pick changed.
    """
    command, folder = tmp_path / "bin" / "advisor", tmp_path / "models"
    for made in (command.parent, folder):
        made.mkdir()
    lines = (
        "#!/bin/sh", f"code=$(cat {tmp_path}/code)", f'echo "$*" > {tmp_path}/called',
        f"if [ $code = 4 ]; then echo '{CHANGED}'; mkdir -p runs/1-again-x; touch runs/1-again-x/request.yaml; fi",
        "exit $code",
    )  # fmt: skip
    command.write_text("\n".join(lines))
    command.chmod(0o755)
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    files = {name: str(tmp_path / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    return {**os.environ, "PATH": path, "HOME": str(tmp_path), **files}


def shell(script: str, environment: dict[str, str], cwd: Path, *flags: str, code: int = 0) -> str:
    """Run a script, check its exit code and return what it printed."""
    command = ["bash", *flags, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=cwd, timeout=300, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout


def test_the_systemd_service_fails_with_four_when_something_changed(advisor: Advisor, tmp_path: Path) -> None:
    """The one test that asks the real command what the others ask."""
    service, timer = blocks("ini")
    units = configparser.ConfigParser(interpolation=None)
    units.optionxform = str  # type: ignore[assignment,method-assign]
    units.read_string(service)
    units.read_string(timer)
    assert units["Service"]["WorkingDirectory"] == "%h/models"
    assert units["Timer"]["OnCalendar"]
    program, *arguments = shlex.split(units["Service"]["ExecStart"])
    assert (program, arguments) == ("advisor", [*NIGHTLY.split(), "--format", "markdown"])
    own_profile(tmp_path / "devices")
    write_run(tmp_path / "runs", rows(), request=REQUEST, manifest=host_manifest({}))
    said = ended(advisor(*arguments), 4)
    assert said.out.startswith("## advisor: 1 answer: 1 changed")
    assert CHANGED in said.out


def test_cron_prints_what_changed_and_then_is_quiet(models: Path, environment: dict[str, str], tmp_path: Path) -> None:
    (table,) = blocks("cron")
    line = next(line for line in table.splitlines() if line[0].isdigit())
    command = line.split(maxsplit=5)[5]
    for code, said in ((4, f"{CHANGED}\n"), (0, "")):
        (tmp_path / "code").write_text(str(code))
        assert shell(command, environment, tmp_path) == said
        assert (tmp_path / "called").read_text() == f"{NIGHTLY} --quiet\n"


@pytest.fixture
def steps() -> dict[str, dict[str, Any]]:
    """The steps of the workflow by their names."""
    workflow: dict[str, Any] = yaml.safe_load(blocks("yaml")[0])
    return {step.get("name"): step for step in workflow["jobs"]["reevaluate"]["steps"]}


def test_the_workflow_tells_the_team_once(
    steps: dict[str, dict[str, Any]], models: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    for command in ("init -q", "-c user.name=x -c user.email=x@example.com commit -q --allow-empty -m start"):
        subprocess.run(["git", *command.split()], cwd=models, check=True)
    for code in (4, 0):
        (tmp_path / "code").write_text(str(code))
        shell(steps["Ask again"]["run"], environment, models, "-e", "-o", "pipefail")
        shell(steps["Keep what was made"]["run"], environment, models, "-e")
    assert (tmp_path / "called").read_text() == f"{NIGHTLY} --format markdown\n"
    assert (tmp_path / "GITHUB_OUTPUT").read_text() == "code=4\ncode=0\n"
    assert steps["Ask again"]["id"] == "again"
    assert steps["Tell the team"]["if"] == "steps.again.outputs.code == '4'"
    assert (tmp_path / "GITHUB_STEP_SUMMARY").read_text() == f"{CHANGED}\n"
    log = subprocess.run(["git", "log", "--format=%s"], cwd=models, capture_output=True, text=True, check=True)
    assert log.stdout.split() == ["Re-evaluated", "start"]


def test_a_wrong_call_does_not_look_like_a_change(
    steps: dict[str, dict[str, Any]], models: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "code").write_text("2")
    shell(steps["Ask again"]["run"], environment, models, "-e", "-o", "pipefail", code=1)
    assert (tmp_path / "GITHUB_OUTPUT").read_text() == "code=2\n"


@pytest.fixture
def action() -> dict[str, Any]:
    """``action.yml``."""
    loaded: dict[str, Any] = yaml.safe_load((PROJECT / "action.yml").read_text(encoding="utf-8"))
    return loaded


def test_the_action_comments_and_fails_with_four_once(
    action: dict[str, Any], models: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    python, *others = action["runs"]["steps"]
    assert python["uses"].startswith("actions/setup-python@")
    steps = {step["name"]: step["run"] for step in others}
    environment |= {name.upper(): str(given["default"]) for name, given in action["inputs"].items()}
    environment |= {"PROFILES": "devices", "CONNECTION": "--adb usb"}
    environment |= {"ACTION": str(PROJECT), "RUNNER_TEMP": str(tmp_path)}
    commented = tmp_path / "bin" / "gh"
    commented.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\ncp "$5" {tmp_path}/commented\n')
    commented.chmod(0o755)
    shell(steps["Install"], environment, models, "-e")
    origin = tmp_path / "origin"
    for words in (["init", "-q", "--bare", str(origin)], ["init", "-q"], ["remote", "add", "origin", str(origin)]):
        subprocess.run(["git", *words], cwd=models, check=True)
    for code in (4, 0):
        (tmp_path / "code").write_text(str(code))
        shutil.rmtree(models / "runs", ignore_errors=True)  # each pull request has a checkout of its own
        (models / ".gitignore").write_text("runs/\n")
        shell(steps["Take the earlier answers"], environment, models, "-e", "-o", "pipefail")
        assert (models / "runs" / "1-again-x" / "request.yaml").is_file() == (code == 0)
        shell(steps["Ask again"], environment, models, "-e", "-o", "pipefail")
        if code == 4:
            (models / "runs" / "1-again-x" / ".gitignore").write_text(GITIGNORE)
            (models / "runs" / "1-again-x" / "report.html").write_text("large")
        shell(steps["Keep the answers"], environment, models, "-e", "-o", "pipefail")
        stored = subprocess.run(
            ["git", "ls-tree", "-r", "--name-only", "advisor-answers"], cwd=origin, capture_output=True
        )
        assert stored.stdout.decode().split() == ["1-again-x/.gitignore", "1-again-x/request.yaml"]
        outputs = dict(line.split("=", 1) for line in (tmp_path / "GITHUB_OUTPUT").read_text().splitlines())
        assert outputs["code"] == str(code)
        fails = {**environment, "CODE": outputs["code"]}
        shell(steps["Fail if a recommendation changed"], fails, models, "-e", code=code)
        if code == 4:
            shell(steps["Comment"], environment | {"NUMBER": "7", "COMMENT": outputs["comment"]}, models, "-e")
    asked = (tmp_path / "called").read_text().replace(" --runs runs --format markdown", "")
    assert asked == f"{NIGHTLY} --adb usb\n"
    assert (tmp_path / "arguments").read_text().startswith("pr comment 7 --body-file")
    assert (tmp_path / "commented").read_text() == f"{CHANGED}\n"
    assert (tmp_path / "GITHUB_STEP_SUMMARY").read_text().startswith((tmp_path / "commented").read_text())


def test_no_input_of_the_action_becomes_a_part_of_a_script(action: dict[str, Any]) -> None:
    assert not [step["name"] for step in action["runs"]["steps"] if "${{" in step.get("run", "")]


def test_the_phone_of_the_page_is_measured_and_may_be_missing(advisor: Advisor, phone: Phone, tmp_path: Path) -> None:
    write_facts(phone.root, PIXEL_8)
    mirror = tool_printing(tmp_path / "mirror", PRINTED).rename(tmp_path / "mirror" / TOOLS["arm64-v8a"]).parent
    write_run(tmp_path / "runs", rows(), request=REQUEST, manifest=host_manifest({}))
    nightly = next(text for text in blocks("sh") if "--adb usb" in text).splitlines()[0]
    command = shlex.split(nightly, comments=True)[1:]
    first = ended(advisor(*command, ADVISOR_MIRROR=str(mirror)), 0)
    assert "pixel-8 (Android 15, benchmark_model" in first.out
    adb("disconnect", phone.serial)
    assert ended(advisor(*command, "--quiet", ADVISOR_MIRROR=str(mirror)), 0).out == "no new answer\n"


def test_a_missing_phone_keeps_its_answer(advisor: Advisor, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Without keys, the cloud does not say what its phones are."""
    run = write_run(tmp_path / "runs", rows(), request=REQUEST, manifest=host_manifest({}))
    cloud = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/none", "AWS_SHARED_CREDENTIALS_FILE": "/none"}
    nightly = ["reevaluate", "--all", "--since-last", "--device"]
    first = ended(advisor(*nightly, "devicefarm:Google Pixel 8", **cloud), 4)
    assert (
        "devicefarm:Google Pixel 8 is predicted: AWS Device Farm: Unable to locate credentials"
        in first.err + caplog.text
    )
    kept = sorted(path.name for path in run.path.parent.iterdir())
    for device, code in (("Google Pixel 8", 0), ("Phone of Nobody", 2)):
        caplog.clear()
        again = ended(advisor(*nightly, f"devicefarm:{device}", **cloud), code)
        assert "Unable to locate credentials" in again.err + caplog.text
    assert sorted(path.name for path in run.path.parent.iterdir()) == kept
