"""Calls in a folder that jobs share."""

import shutil
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from advisor.core import StageError
from advisor.integrations.slurm._calls import TRIES, Call, CallAnswer, CallFolder, describe_state
from tests.builders import must_fail

CALL = Call("light", "os:getpid", (), None)


@pytest.fixture
def calls(tmp_path: Path) -> CallFolder:
    found = CallFolder(tmp_path / "calls")
    found.make_folders(["jobs", "other"])
    for queue, job in (("jobs", "0"), ("jobs", "1"), ("jobs", "2"), ("jobs", "3"), ("other", "1")):
        found.begin_job(queue, job)
    return found


def test_each_call_is_taken_by_one_job_in_the_order_of_their_names(calls: CallFolder) -> None:
    for number in range(40):
        calls.put_call("jobs", f"call{number:02}", CALL)
    assert (first := calls.take_call("jobs", "0"))
    assert first.name == "call00.1"
    with ThreadPoolExecutor(4) as threads:
        taken = list(threads.map(lambda job: calls.take_call("jobs", str(job % 4)), range(60)))
    names = [file.name for file in taken if file]
    assert sorted(names) == [f"call{number:02}.1" for number in range(1, 40)]
    assert calls.take_call("other", "1") is None


def test_an_answer_is_read_once_and_a_call_that_must_not_be_tried_again_fails_at_once(calls: CallFolder) -> None:
    assert calls.take_answer("call") is None
    calls.put_answer("call", CallAnswer(3, None, peak_bytes=5))
    assert calls.take_answer("call") == CallAnswer(3, None, peak_bytes=5)
    assert calls.take_answer("call") is None
    calls.put_call("jobs", "call", CALL)
    calls.take_call("jobs", "1")
    assert calls.give_back("jobs", "1", "for memory", again=False) == {"call"}


def test_a_call_of_jobs_that_ended_is_tried_again_and_then_fails(calls: CallFolder) -> None:
    calls.put_call("jobs", "call", CALL)
    for job in range(TRIES):
        assert calls.take_answer("call") is None
        assert calls.take_call("jobs", str(job)) is not None
        failed = calls.give_back("jobs", str(job), "the machine is gone")
    assert failed == {"call"}
    assert (answer := calls.take_answer("call"))
    assert isinstance(answer.error, StageError)
    assert answer.error.message == "the machine is gone"
    assert calls.take_call("jobs", "3") is None


def test_only_this_user_may_write_calls(calls: CallFolder) -> None:
    assert stat.S_IMODE(calls.path.stat().st_mode) == 0o700


def test_states_are_said_in_words() -> None:
    assert "raise mem_gb" in describe_state("OUT_OF_MEMORY")
    assert "cancelled the job" in describe_state("CANCELLED by 1000")
    assert "ended the job (state BOOT_FAIL)" in describe_state("BOOT_FAIL")
    assert "ended the job (state unknown)" in describe_state("")


def test_a_job_that_is_started_again_gives_back_what_it_had_taken(calls: CallFolder) -> None:
    calls.put_call("jobs", "call", CALL)
    calls.take_call("jobs", "1")
    calls.begin_job("jobs", "1")
    assert (again := calls.take_call("jobs", "2"))
    assert again.name == "call.2"


def test_a_job_does_not_bring_back_a_folder_that_is_deleted(calls: CallFolder) -> None:
    shutil.rmtree(calls.path)
    must_fail(FileNotFoundError, "", calls.begin_job, "jobs", "9")
    must_fail(FileNotFoundError, "", calls.take_call, "jobs", "1")
    assert not calls.path.exists()
