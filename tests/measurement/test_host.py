"""The machine's description, and what speaks against timing now."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import psutil
import pytest

from advisor.core import UsageError
from advisor.isolation import usable_cores
from advisor.measurement import host, require_quiet
from advisor.measurement._host import Conditions, busy_processes, observe_load, trains_on
from tests.builders import must_fail
from tests.processes import PATIENCE_S, children_with, has_ended, until
from tests.tables import read_table, with_cases

PROCESSORS = len(os.sched_getaffinity(0))


def test_description_is_that_of_this_machine_and_its_fingerprint_changes_with_what_the_speed_depends_on() -> None:
    found = host.describe()
    assert found.cores == usable_cores()
    assert found.memory_bytes > 2**28
    assert found.cpu
    assert found.architecture == os.uname().machine
    assert os.uname().nodename not in json.dumps(found.to_json())
    same = replace(found, system="another release", governor="powersave", memory_bytes=found.memory_bytes + 4096)
    assert same.fingerprint == found.fingerprint
    assert replace(found, cpu="another").fingerprint != found.fingerprint
    assert replace(found, cores=found.cores + 1).fingerprint != found.fingerprint
    assert replace(found, features=()).fingerprint != found.fingerprint


@with_cases
def test_a_machine_is_fit_unless_something_slows_it(conditions: dict[str, Any], threads: int, objection: str) -> None:
    objections = Conditions(**conditions).objections(threads)
    assert len(objections) == bool(objection)
    assert objection in "".join(objections)


@pytest.mark.integration
def test_a_busy_machine_is_seen() -> None:
    with busy_processes(2 * PROCESSORS):
        until(lambda: observe_load(0.2).objections(1))  # they may not work yet


def test_a_busy_machine_is_refused_with_the_way_out_which_is_force(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = Conditions(2, 1.9)
    monkeypatch.setattr(host, "observe_load", lambda: busy)
    caught = must_fail(UsageError, "not timed: other processes keep", require_quiet, [1], force=False, patience_s=0.0)
    assert "--force" in caught.hint
    assert require_quiet([1], force=True) is busy


def children() -> list[psutil.Process]:
    return children_with("range(100_000)")


@pytest.mark.integration
def test_so_many_run_and_none_is_left_even_by_an_exception() -> None:
    with suppress(KeyError), busy_processes(2):
        until(lambda: len(children()) == 2)  # the command line of a process that has just begun can be empty
        raise KeyError
    assert children() == []


@pytest.mark.integration
def test_they_end_when_their_starter_was_killed() -> None:
    code = read_table(__file__, "programs.yaml")["die_with_busy_processes"]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    until(partial(has_ended, int(done.stdout)))


def with_gpu(folder: Path) -> Path:
    """Return a folder as NVIDIA's driver makes it, with the first lines of its file."""
    (folder / "0000:18:00.0").mkdir(parents=True)
    text = "Model: \t\t NVIDIA A10G\nIRQ:   \t\t 52\nGPU UUID: \t GPU-5dd9cdf2\nVideo BIOS: \t 94.02.75\n"
    (folder / "0000:18:00.0" / "information").write_text(text)
    return folder


def test_a_machine_without_a_gpu_trains_on_its_cpu(tmp_path: Path) -> None:
    assert trains_on(tmp_path) == trains_on(tmp_path / "none") == "CPU: no GPU is visible"


@pytest.mark.parametrize("seen", ["", "-1", "NoDevFiles"])
def test_a_gpu_that_is_hidden_is_not_trained_on(seen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", seen)
    assert trains_on(with_gpu(tmp_path)) == "CPU: CUDA_VISIBLE_DEVICES hides NVIDIA A10G"


@with_cases
def test_a_gpu_is_named_and_whether_tensorflow_uses_it(
    seen: str | None, of_cpu: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(package: str) -> str:
        if not of_cpu:
            raise PackageNotFoundError(package)
        return of_cpu

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if seen is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", seen)
    monkeypatch.setattr(host, "version", version)
    assert trains_on(with_gpu(tmp_path)) == expected
