"""A table of absurd options, files and names: no internal error, no traceback, no control character, no hang."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.hostile_surfaces.attacks import Case, build, read_cases, wrong
from benchmarks.hostile_surfaces.attempts import faults
from tests.makers.commands import Advisor
from tests.places import PROJECT
from tests.tables import with_cases

pytestmark = pytest.mark.integration

SOON_S = 120
CASES = read_cases("commands.yaml")
SEARCH = ("search", "--candidates", "mobilenet_v1_0.25_224", "--offline")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_absurd_input_ends_soon_in_words(advisor: Advisor, tmp_path: Path, case: Case) -> None:
    build(tmp_path, case)
    said = advisor(*case.arguments, timeout=SOON_S, ADVISOR_CACHE_DIR=str(tmp_path / "cache"))
    assert wrong(tmp_path, case, said.code, said.out, said.err) == "", said.err[-500:]
    assert said.code == 0 or said.err.startswith(("error: ", "Usage: "))
    assert not faults(said.code, said.out, said.err)
    assert len(said.err) < 6000


@with_cases
def test_closed_and_full_streams_do_not_change_the_exit_code(command: str, code: int, tmp_path: Path) -> None:
    run = ["/bin/sh", "-c", f'"{sys.executable}" -P -m advisor {command}']
    said = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=SOON_S)
    assert said.returncode == code
    assert "Traceback" not in said.stderr


@with_cases
def test_a_reader_that_closes_the_pipe_early_does_not_change_the_exit_code(arguments: list[str], code: int) -> None:
    command = [sys.executable, "-m", "advisor", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=PROJECT) as process:
        process.stdout.close()
        errors = process.stderr.read().decode()
        assert process.wait() == code, errors
    assert ("Traceback" in errors, "BrokenPipe" in errors) == (False, False)


@with_cases
def test_too_little_memory_is_said_before_the_work(tmp_path: Path, command: str, limit_kb: int, needs: str) -> None:
    run = ["/bin/sh", "-c", f'ulimit -v {limit_kb}; "{sys.executable}" -P -m advisor {command}']
    said = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=SOON_S)
    assert (said.returncode, f"error: {needs}" in said.stderr) == (2, True), said.stderr[-500:]
    assert f"ulimit -v allows {limit_kb * 1024 / 1e6:.1f} MB of addresses" in said.stderr
    assert not (tmp_path / "runs").exists()


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
