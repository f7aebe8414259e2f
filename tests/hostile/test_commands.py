"""A table of absurd options, files and names: no internal error, no traceback, no control character, no hang."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.hostile.attempts import faults
from tests.makers.commands import Advisor

pytestmark = pytest.mark.integration

SOON_S = 120
BOARD = (
    "name: board\ntitle: Board\nkind: board\nsoc: Maker\ndefault_target: cpu\n"
    "targets: [{name: cpu, runtime: ai-edge-litert, accelerator: cpu, precisions: [float32]}]\n"
)
DEEP = "a/" * 2500
LONG = "a" * 5000


@dataclass(frozen=True)
class Case:
    """A command and what it must say."""

    arguments: tuple[str, ...]  # of the command; ``FIFO`` is a pipe that nobody writes to
    words: str  # a part of the error
    files: tuple[tuple[str, str], ...] = ()  # text by name of files beside the command
    code: int = 2  # the exit code


def profile(line: str) -> tuple[tuple[str, str], ...]:
    return (("p/board.yaml", f"{BOARD}{line}\n"),)


def request(line: str) -> tuple[tuple[str, str], ...]:
    return (("r.yaml", f"{line}\n"),)


def table(text: str) -> tuple[tuple[str, str], ...]:
    return (("t.csv", text),)


CHECK = ("data", "check", "t.csv")
BOXES = ("--task", "object-detection")
SHOW = ("devices", "show", "board", "--profiles", "p")
PLAN = ("plan", "--request", "r.yaml")
CASES = {
    "size beyond a float": Case(("plan", "--size-budget", "1e308GB"), "--size-budget: '1e308GB' is too large"),
    "time beyond the calendar": Case(("benchmark", "x.tflite", "--sustained", "1e300h"), "is too large"),
    "threads of 5,000 digits": Case(("plan", "--threads", "9" * 5000), "is not a whole number"),
    "a shape of 5,000 digits": Case(("benchmark", "x.tflite", "--shape", f"1,{'9' * 5000}"), "is not a shape"),
    "a model of a billion pixels a side": Case(
        ("catalog", "add", "x.keras", "--input-size", "1000000000"), "is not a whole number from 16 to 2048"
    ),
    "data far down": Case(("plan", "--data", DEEP), "name too long"),
    "model with a long name": Case(("profile", LONG), "name too long"),
    "request far down": Case(("plan", "--request", DEEP), "name too long"),
    "a pipe as request": Case(("plan", "--request", "FIFO"), "is not a plain file"),
    "a device as request": Case(("plan", "--request", "/dev/zero"), "is not a plain file"),
    "a pipe as model": Case(("profile", "FIFO"), "no model file"),
    "a pipe as data": Case(("data", "check", "FIFO"), "neither a folder nor a manifest"),
    "memory beyond a float": Case(SHOW, "1e400GB' is too large", profile("memory: 1e400GB")),
    "a mirror that no server can have": Case(
        ("catalog", "fetch", "mobilenet_v2_1.0_224", "--mirror", "http://me:pw@[::1/x"), "is not a valid address"
    ),
    "a profile without a name": Case(("devices", "add", ""), ".: is not a plain file"),
    "no value": Case(PLAN, "threads: no value", request("threads: null")),
    "a wrong type in a list": Case(PLAN, "threads: '{'a': 1}' is not one value", request("threads: {a: 1}")),
    "a header of 131 kB": Case(CHECK, "field larger than field limit", table(f"path,label,{'x' * 131_100}\na.jpg,b\n")),
    "a header over two lines": Case(CHECK, "no column 'path' (did you mean 'pa th'?)", table('"pa\nth",label\na,b\n')),
    "NUL in a label": Case(CHECK, "row 2 of 't.csv' has a label with NUL", table("path,label\na.jpg,b\0c\n")),
    "a label of 2,000 characters": Case(CHECK, "more than 1000 characters", table(f"path,label\na.jpg,{'b' * 2000}\n")),
    "a folder without boxes": Case(("data", "check", ".", *BOXES), "no boxes in a known format"),
    "infinite boxes": Case(
        (*CHECK, *BOXES), "no box that can be used", table("path,label,xmin,ymin,xmax,ymax\na.jpg,b,0,0,inf,1e999\n")
    ),
    "an escape sequence in a class": Case(
        ("data", "check", "d", *BOXES), "no list 'names'", (("d/data.yaml", 'nc: "\\e[31m"'),)
    ),
    "an escape sequence in a name": Case(("devices", "show", "\x1b[31mred\x07"), r"'\x1b[31mred\x07'"),
    "a control character in a card": Case(("plan", "--candidates", "\x1b]0;title\x07"), r"\x1b]0;title\x07"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_absurd_input_ends_soon_in_words(advisor: Advisor, tmp_path: Path, case: Case) -> None:
    for name, content in case.files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
    os.mkfifo(tmp_path / "FIFO")
    said = advisor(*case.arguments, timeout=SOON_S)
    assert said.code == case.code, said.err[-500:]
    assert case.words in said.err
    assert said.err.startswith(("error: ", "Usage: "))
    assert not faults(said.code, said.out, said.err)
    assert len(said.err) < 6000


@pytest.mark.parametrize(
    ("command", "code"),
    [("explain nothing <&- >&- 2>&-", 2), ("--version >&-", 0), ("--version >/dev/full 2>/dev/full", 2)],
)
def test_closed_and_full_streams_do_not_change_the_exit_code(command: str, code: int, tmp_path: Path) -> None:
    run = ["/bin/sh", "-c", f'"{sys.executable}" -P -m advisor {command}']
    said = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=SOON_S)
    assert said.returncode == code
    assert "Traceback" not in said.stderr


@pytest.mark.parametrize(
    ("command", "limit_kb", "needs"),
    [
        ("plan", 300_000, "a plan needs 150.0 MB of memory and 550.0 MB of addresses: "),
        ("search --budget 9ms", 800_000, "a search needs 850.0 MB of memory and 2.1 GB of"),
    ],
)
def test_too_little_memory_is_said_before_the_work(tmp_path: Path, command: str, limit_kb: int, needs: str) -> None:
    run = ["/bin/sh", "-c", f'ulimit -v {limit_kb}; "{sys.executable}" -P -m advisor {command}']
    said = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=SOON_S)
    assert (said.returncode, f"error: {needs}" in said.stderr) == (2, True), said.stderr[-500:]
    assert f"ulimit -v allows {limit_kb * 1024 / 1e6:.1f} MB of addresses" in said.stderr
    assert not (tmp_path / "runs").exists()


SEARCH = ("search", "--candidates", "mobilenet_v1_0.25_224", "--offline")


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/none"])
def test_a_search_needs_a_cache_that_can_be_made(quick_advisor: Advisor, tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    said = quick_advisor(*SEARCH, ADVISOR_CACHE_DIR=str(tmp_path / place))
    assert said.code == 2
    assert said.err.splitlines()[-2].startswith(f"error: the cache '{tmp_path / place}' cannot be made (")
    assert said.err.splitlines()[-1] == "hint:  set ADVISOR_CACHE_DIR to a folder that you can write to"
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("command", ["catalog list", "devices list", "plan --candidates squeezenet_1.1_227"])
def test_what_only_reads_needs_no_cache_and_no_configuration(advisor: Advisor, tmp_path: Path, command: str) -> None:
    (tmp_path / "file").touch()
    settings = dict.fromkeys(("ADVISOR_CACHE_DIR", "ADVISOR_CONFIG_DIR"), str(tmp_path / "file"))
    assert advisor(*command.split(), **settings).code == 0
