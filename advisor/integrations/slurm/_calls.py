"""The calls of one search, as files in a folder that every machine sees, and the job
that takes them.

The executor puts calls and takes answers (:class:`CallFolder`); a job of the batch system runs
:func:`serve`. Both have the same version of advisor, and the folder ends with the search, so names
and pickles in it may change.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from advisor.core import AdvisorError, StageError
from advisor.isolation import CallLimits, ChildPool, Pause, PoolKind
from advisor.store import write_atomically

LOOKS_EVERY_S = 0.2
"""Seconds between two looks at the folder."""

TRIES = 2
"""Jobs that may end while they work on a call, before the call fails."""

STATES = {
    "OUT_OF_MEMORY": "killed the job for memory (OUT_OF_MEMORY): raise mem_gb",
    "TIMEOUT": "ended the job at its time limit (TIMEOUT): raise timeout_min",
    "NODE_FAIL": "lost the machine of the job (NODE_FAIL)",
    "PREEMPTED": "gave the machine of the job to another one (PREEMPTED)",
    "CANCELLED": "cancelled the job (CANCELLED)",
}
"""The end of a job in words, by the states of ``sacct`` (https://slurm.schedmd.com/sacct.html)."""


@dataclass(frozen=True)
class Call:
    """A function by name (``module:function``) with its arguments, for a child process
    of a kind.
    """

    kind: str
    function: str
    arguments: tuple[object, ...]
    limits: CallLimits | None


@dataclass(frozen=True)
class CallAnswer:
    """Result or error of a call."""

    value: object  #: the returned value
    error: AdvisorError | None  #: the raised error, None if the call returned
    peak_bytes: int = 0  #: highest resident memory of a child process of the job
    cpu_s: float = 0.0  #: CPU seconds of the child process


class CallFolder:
    """The folder of a search.

    A call is a file ``QUEUE/wanted/NAME.TRY`` until a job moves it to ``QUEUE/taken/JOB``.

    Moving a file is atomic, also on NFS: one job gets it. Folders are listed, because the
    existence of a file may be cached for some seconds. The files are pickles, so only this user
    may write here.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder

    def make_folders(self, queues: Iterable[str]) -> None:
        """Make the folders of the queues and the answers.

        Only the search calls this: a job must not bring back a folder that the search has deleted.
        """
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        names = ["answers", "unwanted"]
        for queue in queues:
            names += [f"{queue}/wanted", f"{queue}/taken"]
        for name in names:
            (self.path / name).mkdir(parents=True)

    def put_call(self, queue: str, name: str, call: Call) -> None:
        """Put a call into a queue, where a job takes it: its first try."""
        write_atomically(self.path / queue / "wanted" / f"{name}.1", pickle.dumps(call))

    def begin_job(self, queue: str, job: str) -> None:
        """Make the folder of a job.

        A job that the batch system starts again gives back the calls that it had taken.
        """
        self._folder_taken(queue, job).mkdir(exist_ok=True)
        why = f"the batch system started job {job} again while it worked on this"
        self.give_back(queue, job, why)

    def has_begun(self, queue: str, job: str) -> bool:
        """Return whether a job has begun."""
        return _has_entry(self.path / queue / "taken", job)

    def take_call(self, queue: str, job: str) -> Path | None:
        """Return the file of the first call by name, which now belongs to a job;
        None if none waits.
        """
        wanted = self.path / queue / "wanted"
        # A file that is being written has a name with a dot before it.
        names = [entry.name for entry in os.scandir(wanted) if not entry.name.startswith(".")]
        for name in sorted(names):
            # Another job was faster.
            with contextlib.suppress(FileNotFoundError):
                return (wanted / name).rename(self._folder_taken(queue, job) / name)
        return None

    def give_back(self, queue: str, job: str, why: str, again: bool = True) -> set[str]:
        """Put the calls of a job that has ended back into the queue.

        Returns the names of those that fail instead: with the reason ``why`` if :data:`TRIES` jobs
        have had the call, or at once if not ``again``.
        """
        failed = set[str]()
        if not self.has_begun(queue, job):
            return failed
        for file in sorted(self._folder_taken(queue, job).iterdir()):
            name, _, tried = file.name.rpartition(".")
            if again and int(tried) < TRIES:
                file.rename(self.path / queue / "wanted" / f"{name}.{int(tried) + 1}")
            else:
                self.put_answer(name, CallAnswer(None, StageError(why)))
                file.unlink()
                failed.add(name)
        return failed

    def put_answer(self, name: str, answer: CallAnswer) -> None:
        """Keep the answer to a call."""
        write_atomically(self.path / "answers" / name, pickle.dumps(answer))

    def take_answer(self, name: str) -> CallAnswer | None:
        """Return the answer to a call and forget it; None if there is none yet."""
        if not _has_entry(self.path / "answers", name):
            return None
        file = self.path / "answers" / name
        # A pickle of our own job, in a folder where only this user may write.
        answer: CallAnswer = pickle.loads(file.read_bytes())  # noqa: S301
        file.unlink()
        return answer

    def drop_call(self, name: str) -> None:
        """Say that nobody needs the answer to a call any more."""
        (self.path / "unwanted" / name).touch()

    def is_dropped(self, name: str) -> bool:
        """Return whether nobody needs the answer any more."""
        return _has_entry(self.path / "unwanted", name)

    def _folder_taken(self, queue: str, job: str) -> Path:
        return self.path / queue / "taken" / job


def _has_entry(folder: Path, name: str) -> bool:
    return any(entry.name == name for entry in os.scandir(folder))


def serve(folder: Path, queue: str, idle_s: float) -> None:
    """Take calls and answer them until none has come for ``idle_s`` seconds: the work
    of one job.
    """
    import submitit

    # The search has ended and deleted its folder.
    with contextlib.suppress(FileNotFoundError):
        _answer_calls(CallFolder(folder), queue, submitit.JobEnvironment().job_id, idle_s)


def _answer_calls(calls: CallFolder, queue: str, job: str, idle_s: float) -> None:
    """See :func:`serve`."""
    pools = dict[str, ChildPool]()
    worked = time.monotonic()
    calls.begin_job(queue, job)
    while time.monotonic() - worked < idle_s:
        file = calls.take_call(queue, job)
        if file is None:
            time.sleep(LOOKS_EVERY_S)
            continue
        name = file.name.rpartition(".")[0]
        if not calls.is_dropped(name):
            # A pickle of our own search, in a folder where only this user may write.
            call = pickle.loads(file.read_bytes())  # noqa: S301
            if call.kind not in pools:
                pools[call.kind] = PoolKind(call.kind).open(None)
            calls.put_answer(name, _run_call(calls, name, call, pools[call.kind]))
        # After the answer: a job that is killed before this line gives the call to another job.
        file.unlink()
        worked = time.monotonic()


def _run_call(calls: CallFolder, name: str, call: Call, pool: ChildPool) -> CallAnswer:
    """Run a call in a child process of this machine, and end it if nobody needs it any more."""
    pause = Pause()
    value = None
    error = None
    with _ends_when_dropped(calls, name, pause):
        try:
            value = pool.call(call.function, *call.arguments, limits=call.limits, pause=pause)
        except AdvisorError as raised:
            error = raised
    return CallAnswer(value, error, pool.peak_bytes, pause.cpu_s)


@contextlib.contextmanager
def _ends_when_dropped(calls: CallFolder, name: str, pause: Pause) -> Iterator[None]:
    """End a call that nobody needs any more.

    The call stays in this thread, because a child ends with the thread that started it.
    """
    over = threading.Event()

    def watch() -> None:
        with contextlib.suppress(FileNotFoundError):
            while not over.wait(5 * LOOKS_EVERY_S):
                if calls.is_dropped(name):
                    pause.end()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def describe_state(state: str) -> str:
    """Return in words what the batch system did, by the state of a job that has ended,
    such as ``TIMEOUT``.
    """
    # Such as "CANCELLED by 1000".
    word = state.partition(" ")[0]
    return STATES.get(word, f"ended the job (state {state or 'unknown'})")
