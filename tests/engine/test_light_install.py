"""The light install: what it promises runs in processes in which nothing of its extras can be imported."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from advisor.core.errors import install_extra
from tests.builders import present
from tests.makers.searches import SMALLEST, Searched, environment
from tests.processes import PATIENCE_S

HIDDEN = ("tensorflow", "keras", "h5py", "pandas", "fastparquet", "cleanlab", "sklearn")

SITE = f"""
import importlib.metadata
from importlib.machinery import PathFinder

HIDDEN = {HIDDEN!r}

def find_spec(cls, name, *arguments, found=PathFinder.find_spec):
    return None if name.partition(".")[0] in HIDDEN else found(name, *arguments)

def from_name(cls, name, found=importlib.metadata.Distribution.from_name):
    if name.removesuffix("-cpu") in HIDDEN:
        raise importlib.metadata.PackageNotFoundError(name)
    return found(name)

PathFinder.find_spec = classmethod(find_spec)
importlib.metadata.Distribution.from_name = classmethod(from_name)
"""
"""Python runs it at the start of every process, of the children too."""

COMMANDS = (
    "plan --budget 50ms --data {data} --sort latency",
    "report {run} --filter size<5MB",
    "benchmark {model} --force",
    "compress {model} --recipe float16,int8,mixed_int8 --data {data} --to forms",
    "compare {run} {run}",
    "reevaluate {run}",
    "predict {run} {photo}",
    "export {run} --to bundle",
    "profile {model}",
    "data check {data} --no-labels",
    "devices list --sort device",
    "catalog list",
    "catalog show mobilenet_v2_1.0_224",
    "runs {runs}",
    "doctor",
)

REFUSED = (
    "search --budget 50ms",
    "search --budget 50ms --resume {run}",
    "compress {model} --recipe int8,qat_int8 --data {data} --to learnt",
    "catalog add {net}",
    "catalog check --build",
    "devices calibrate pixel-4 --here",
)


Start = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def start(with_images: Searched, photos: Path, tmp_path: Path) -> Start:
    """Start a command of the light install in an empty folder."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(SITE)
    (tmp_path / "work").mkdir()
    (tmp_path / "net.keras").write_bytes(b"")
    own = environment(tmp_path / "cache")
    own["PYTHONPATH"] = os.pathsep.join([str(tmp_path / "site"), own["PYTHONPATH"]])
    run = with_images.run
    model = next(run.artefacts.glob("*-float32.tflite"))
    places = {"run": run.path, "runs": run.path.parent, "model": model, "net": tmp_path / "net.keras", "data": photos}
    places["photo"] = next(photos.rglob("1.jpg"))

    def started(command: str) -> subprocess.Popen[str]:
        words = [word.format_map(places) for word in command.split()]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        asked = [sys.executable, "-m", "advisor", *words]
        return subprocess.Popen(asked, env=own, cwd=tmp_path / "work", text=True, **pipes)

    return started


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_promised_runs(command: str, start: Start) -> None:
    with start(command) as process:
        said = process.communicate(timeout=540)
    assert process.returncode == 0, said


@pytest.mark.parametrize("command", REFUSED)
def test_what_trains_or_converts_is_refused_with_the_extra(command: str, start: Start, tmp_path: Path) -> None:
    with start(command) as process:
        _, said = process.communicate(timeout=540)
    assert (process.returncode, "needs TensorFlow, which is not installed" in said) == (2, True), said
    assert f"hint:  {install_extra('train')}" in said
    assert not list((tmp_path / "work").iterdir()), "nothing was done"


def test_the_pages_are_served(start: Start) -> None:
    with start("serve --json --runs {runs}") as process:
        address = json.loads("".join(present(process.stdout).readline() for _ in range(4)))["address"]
        assert SMALLEST in httpx2.get(address, timeout=PATIENCE_S).text
        process.send_signal(signal.SIGINT)
