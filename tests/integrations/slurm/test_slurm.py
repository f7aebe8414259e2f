"""Jobs of a batch system with real processes, which are killed for memory, time and without a reason."""

import os
import signal
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from advisor.api import search
from advisor.core import StageError, UnsupportedRecipe, UsageError
from advisor.integrations import slurm
from advisor.integrations.slurm import SlurmExecutor, _programs as programs, read_settings
from advisor.isolation import Pause
from tests.builders import must_fail
from tests.integrations.slurm import standin
from tests.processes import has_ended, until
from tests.tables import with_cases

pytestmark = pytest.mark.integration

Start = Callable[..., SlurmExecutor]

JOBS = "tests.integrations.slurm.jobs"
NOTE_AND_WAIT = f"{JOBS}:note_and_wait"


def test_jobs_answer_and_their_errors_come_back(start: Start) -> None:
    call = start().pools["light"].call
    assert call(f"{JOBS}:process") not in (0, os.getpid())
    must_fail(UnsupportedRecipe, "not for this model", call, "tests.isolation.functions:refuse")
    must_fail(StageError, "crashed with SIGSEGV", call, "tests.isolation.functions:segfault")


def test_as_many_jobs_work_as_calls_are_open_and_allowed(start: Start, batch_system: Path, tmp_path: Path) -> None:
    executor, started, last = start(workers=2), tmp_path / "started", tmp_path / "last"
    started.mkdir()
    with ThreadPoolExecutor(3) as threads:
        call = executor.pools["light"].call
        calls = [threads.submit(call, NOTE_AND_WAIT, str(started), str(last)) for _ in range(3)]
        until(lambda: len(list(started.iterdir())) == 2)
        last.touch()
        assert len({call.result() for call in calls}) == 2
    assert len(standin.states(batch_system)) == 2


def test_a_job_that_is_killed_for_memory_fails_its_call_with_a_plain_reason(start: Start, batch_system: Path) -> None:
    executor = start(mem_gb=1)
    with pytest.raises(StageError, match=r"killed the job for memory \(OUT_OF_MEMORY\): raise mem_gb"):
        executor.pools["light"].call(f"{JOBS}:take", 1.5)
    assert list(standin.states(batch_system).values()) == ["OUT_OF_MEMORY"]
    assert executor.pools["light"].call(f"{JOBS}:process")


def test_a_job_at_its_time_limit_is_tried_once_more(
    start: Start, batch_system: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (started := tmp_path / "started").mkdir()
    monkeypatch.setenv("STANDIN_MINUTE_S", "0.1")
    monkeypatch.setenv("STANDIN_CLOCK_STARTS", str(started))
    with pytest.raises(StageError, match=r"ended the job at its time limit \(TIMEOUT\): raise timeout_min"):
        start(timeout_min=1).pools["light"].call(NOTE_AND_WAIT, str(started), str(tmp_path / "never"))
    assert Counter(standin.states(batch_system).values()) == {"TIMEOUT": 2}


def test_a_job_that_dies_is_replaced_and_its_call_done_by_another(start: Start, tmp_path: Path) -> None:
    executor, started, last = start(), tmp_path / "started", tmp_path / "last"
    started.mkdir()
    with ThreadPoolExecutor(1) as thread:
        call = thread.submit(executor.pools["light"].call, NOTE_AND_WAIT, str(started), str(last))
        until(lambda: list(started.iterdir()))
        first = int(next(started.iterdir()).name)
        os.kill(first, signal.SIGKILL)
        until(lambda: has_ended(first))
        last.touch()
        assert call.result() != first
    assert len(list(started.iterdir())) == 2


def test_a_call_that_nobody_needs_ends_and_the_job_goes_on(start: Start, tmp_path: Path) -> None:
    executor, started, pause = start(), tmp_path / "started", Pause()
    started.mkdir()
    with ThreadPoolExecutor(1) as thread:
        call = thread.submit(
            executor.pools["trainers"].call, NOTE_AND_WAIT, str(started), str(tmp_path / "never"), pause=pause
        )
        until(lambda: list(started.iterdir()))
        pause.end()
        must_fail(StageError, "nobody needs the result", call.result)
    assert str(executor.pools["light"].call(f"{JOBS}:process")) in {each.name for each in started.iterdir()}


def test_a_searchs_end_cancels_its_jobs_and_leaves_nothing(start: Start, batch_system: Path, tmp_path: Path) -> None:
    executor, started = start(), tmp_path / "started"
    started.mkdir()
    with ThreadPoolExecutor(1) as thread:
        call = thread.submit(executor.pools["light"].call, NOTE_AND_WAIT, str(started), str(tmp_path / "never"))
        until(lambda: list(started.iterdir()))
        executor.close()
        must_fail(StageError, "the search has ended", call.result)
    until(lambda: has_ended(int(next(started.iterdir()).name)))
    until(lambda: list(standin.states(batch_system).values()) == ["CANCELLED by 0"])
    assert not list((tmp_path / "cache" / "slurm").iterdir())


def test_a_job_without_work_ends(start: Start, batch_system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "IDLE_S", 0.5)
    executor = start()
    first = executor.pools["light"].call(f"{JOBS}:process")
    until(lambda: set(standin.states(batch_system).values()) == {"COMPLETED"})
    assert executor.pools["light"].call(f"{JOBS}:process") != first


def test_what_the_batch_system_refuses_is_said(start: Start) -> None:
    with pytest.raises(StageError, match="refused a job: .*invalid partition specified: closed"):
        start(slurm_partition="closed").pools["light"].call(f"{JOBS}:process")


def test_jobs_that_end_before_they_work_are_not_handed_in_for_ever(start: Start, batch_system: Path) -> None:
    call = start(slurm_setup="['exit 3']").pools["light"].call
    for _ in range(2):
        must_fail(StageError, r"state FAILED\) before it began to work; its log: ", call, f"{JOBS}:process")
    assert len(standin.states(batch_system)) == 2


def test_jobs_that_train_ask_for_what_the_section_says(start: Start, tmp_path: Path) -> None:
    (tmp_path / "gpu.yaml").write_text("training: {gpus_per_node: 1, slurm_partition: gpu}\n")
    executor = SlurmExecutor(read_settings(str(tmp_path / "gpu.yaml")), 1)
    try:
        assert executor.pools["light"].call(f"{JOBS}:process") != executor.pools["trainers"].call(f"{JOBS}:process")
        scripts = [file.read_text() for file in sorted((executor.calls.path / "logs").glob("*_submission.sh"))]
    finally:
        executor.close()
    assert ["partition=gpu" in script and "gpus-per-node=1" in script for script in scripts] == [False, True]


def test_where_slurm_is_missing_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path / "cache"))
    refused = must_fail(UsageError, "Slurm is not installed here", SlurmExecutor, read_settings(""), 1)
    assert "sbatch" in refused.hint
    assert not list((tmp_path / "cache" / "slurm").iterdir())
    monkeypatch.setattr("advisor.core._errors.find_spec", lambda _: None)
    must_fail(UsageError, "submitit is not installed", search, budget="50ms", data="gone", executor="slurm", quiet=True)


def replaced(batch_system: Path, program: str, script: str) -> None:
    (batch_system / "programs" / program).write_text(f"#!/bin/sh\n{script}")


def test_a_hanging_program_fails_all_calls(start: Start, batch_system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "SUBMIT_S", 0.5)
    replaced(batch_system, "sbatch", "exec sleep 600")
    call = start().pools["light"].call
    for _ in range(2):
        must_fail(StageError, r"gives no answer: 'sbatch' did not end within 0.5 s", call, f"{JOBS}:process")


def test_a_program_that_hangs_ends_with_the_call_that_waits_for_it(start: Start, batch_system: Path) -> None:
    executor, pause = start(), Pause()
    replaced(batch_system, "sbatch", f"touch {batch_system}/asked\nexec sleep 600")
    with ThreadPoolExecutor(1) as thread:
        call = thread.submit(executor.pools["light"].call, f"{JOBS}:process", pause=pause)
        until((batch_system / "asked").exists)
        pause.end()
        must_fail(StageError, "", call.result)


@with_cases
def test_no_state_ends_a_job(start: Start, batch_system: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    monkeypatch.setattr(programs, "LOOK_S", 0.3)
    replaced(batch_system, "sacct", script)
    assert start().pools["light"].call(f"{JOBS}:process")
