"""The light install: what it promises runs in a process in which nothing of its extras can be imported."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from advisor.core import install_extra
from advisor.datasets import DEMO_NOTE
from tests.builders import present
from tests.makers.searches import SMALLEST, Searched, environment, linked_cache
from tests.processes import PATIENCE_S
from tests.tables import read_table

HIDDEN = ("tensorflow", "keras", "h5py", "pandas", "fastparquet", "sklearn")

SITE = f"HIDDEN = {HIDDEN!r}\n{read_table(__file__, 'programs.yaml')['hide_extras']}"
"""Python runs it at the start of every process, of the children too."""

COMMANDS = read_table(__file__, "light_commands.yaml")

REFUSED = tuple(read_table(__file__, "programs.yaml")["refused_without_extras"])
ONE_AFTER_THE_OTHER = read_table(__file__, "programs.yaml")["one_after_the_other"]
"""Runs commands, then stages of a candidate, in one process; keeps exit code, errors and new files of each."""

Said = dict[str, tuple[int, str, list[str]]]
"""Exit code, errors and new files of each command."""


@pytest.fixture(scope="module")
def places(with_images: Searched, photos: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What the commands name, and an empty folder for them to work in."""
    folder = tmp_path_factory.mktemp("light")
    for name in ("site", "work"):
        (folder / name).mkdir()
    (folder / "site" / "sitecustomize.py").write_text(SITE)
    linked_cache(folder / "cache")
    (folder / "net.keras").write_bytes(b"")
    run = Path(shutil.copytree(with_images.run.path, folder / "runs" / with_images.run.path.name))
    model, photo = next(run.glob("artifacts/*-float32.tflite")), next(photos.rglob("1.jpg"))
    made = {"folder": folder, "run": run, "runs": run.parent, "model": model, "net": folder / "net.keras"}
    return {**made, "data": photos, "photo": photo}


def start(places: dict[str, Path], *arguments: str) -> "subprocess.Popen[str]":
    """Start Python without the extras."""
    folder = places["folder"]
    own = environment(folder / "cache")
    own["PYTHONPATH"] = os.pathsep.join([str(folder / "site"), own["PYTHONPATH"]])
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, *arguments], env=own, cwd=folder / "work", text=True, **pipes)


def words_of(command: str, places: dict[str, Path]) -> list[str]:
    return [word.format_map(places) for word in command.split()]


@pytest.fixture(scope="module")
def said(places: dict[str, Path]) -> Said:
    words = {command: words_of(command, places) for command in (*COMMANDS, *REFUSED)}
    with start(places, "-c", ONE_AFTER_THE_OTHER, json.dumps(words), str(places["data"])) as process:
        printed = process.communicate(timeout=540)
    assert process.returncode == 0, printed
    found: Said = json.loads((places["folder"] / "work" / "said.json").read_text())
    return found


@pytest.mark.parametrize("command", [*COMMANDS, "a candidate"])
def test_what_is_promised_runs(command: str, said: Said) -> None:
    code, errors, _ = said[command]
    assert code == 0, errors


@pytest.mark.slow
def test_a_demonstration_ends_with_a_pick_and_says_what_it_is(places: dict[str, Path]) -> None:
    asked = f"search --demo --candidates {SMALLEST} --compressions int8"
    with start(places, "-m", "advisor", *words_of(asked, places), "--threads", "1", "--workers", "1") as process:
        printed, errors = process.communicate(timeout=540)
    assert process.returncode == 0, errors
    assert " ".join(printed.split()).startswith(DEMO_NOTE)
    assert "advisor search --budget 50ms --data YOUR_PHOTOGRAPHS" in printed
    assert "Pick: " in printed


@pytest.mark.parametrize("command", REFUSED)
def test_what_trains_or_converts_is_refused_with_the_extra(command: str, said: Said) -> None:
    code, errors, files = said[command]
    assert (code, "needs TensorFlow, which is not installed" in errors) == (2, True), errors
    assert f"hint:  {install_extra('train')}" in errors
    assert not files, "nothing was done"


def test_the_pages_are_served(places: dict[str, Path]) -> None:
    with start(places, "-m", "advisor", *words_of("serve --json --runs {runs}", places)) as process:
        address = json.loads("".join(present(process.stdout).readline() for _ in range(4)))["address"]
        assert SMALLEST in httpx2.get(address, timeout=PATIENCE_S).text
        process.send_signal(signal.SIGINT)
