"""The executor ``slurm``: run the jobs of a search in jobs of a batch system.

The entry point ``advisor.executors`` names this module; the search calls :func:`executor` and
uses what it returns in place of its own child processes. A call waits as a file in a folder that
all machines see (``_calls.py``), and jobs that :mod:`submitit` hands in take it from there.
``_programs.py`` asks ``sbatch`` and ``sacct``. The names in :data:`SECTIONS` and those of submitit
are written into settings of users.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from advisor.core import StageError, UsageError, first_line, last_line, nearest, require_extra
from advisor.integrations.slurm._calls import (
    LOOKS_EVERY_S,
    Call,
    CallFolder,
    describe_state,
    serve,
)
from advisor.isolation import UNWANTED, CallLimits, Pause, PoolKind, TimedOut
from advisor.store import YamlDocument, cache_root

if TYPE_CHECKING:
    from advisor.engine import Execution, Executor

Result = TypeVar("Result")

VALUES = "slurm (jobs of this cluster), slurm://settings.yaml (with settings of the jobs)"

USUAL: Mapping[str, Any] = {"name": "advisor", "timeout_min": 240, "mem_gb": 8, "cpus_per_task": 2}
"""Requests of a job unless the settings say otherwise, by submitit's names."""

SECTIONS = ("cluster", "jobs", "training")

JOBS = 4
"""Jobs at the same time without ``--workers``."""

AHEAD = 2
"""Calls for each job: one that it works on, and one that waits,
so that it need not wait for the search.
"""

IDLE_S = 300.0
"""A job that had nothing to do for so long ends:
it keeps no machine while others wait, nor after a search is gone.
"""

STARTS = 2
"""Jobs in a row that may end before they take a call; then all calls fail."""

STALE_S = 2 * 24 * 3600.0
"""Age of a folder whose search was killed, after which it is deleted."""

STATE_EVERY_S = {"slurm": 15.0, "local": 0.5}
"""Seconds between two looks at the states of jobs: ``sacct`` asks a database that all users
share.
"""


def require_installed() -> None:
    """Refuse to go on without submitit: UsageError."""
    require_extra("submitit", "slurm", "--executor: submitit is not installed")


def executor(execution: Execution) -> Executor:
    """Return the connected executor; see :class:`advisor.engine._execution.ExecutorSource`."""
    return SlurmExecutor(read_settings(execution.cluster), execution.workers or JOBS)


def read_settings(file: str) -> dict[str, Any]:
    """Return the settings in a file by section, the usual ones without a file.

    ``jobs`` is what a job asks for, ``training`` what a job that trains asks for besides, by
    submitit's names. ``cluster`` is ``slurm``, or ``local`` to try the settings with processes
    of this machine.

    Raises:
        UsageError: the file cannot be read, or a section of it is unknown or no mapping.
    """
    path = Path(os.path.expanduser(file))  # noqa: PTH111 -- an unknown user is no error
    values = (YamlDocument.read(path).values or {}) if file else {}
    if not isinstance(values, dict):
        raise UsageError(
            f"--executor: '{file}' has no sections",
            f"write for example {SECTIONS[1]}: {{mem_gb: 8}}",
        )
    for name, value in values.items():
        if name not in SECTIONS:
            why = f"--executor: {file}: unknown section '{name}'{nearest(str(name), SECTIONS)}"
            raise UsageError(why, f"one of: {', '.join(SECTIONS)}")
        # A section without lines is None in YAML.
        if not isinstance(value, dict | None) and name != "cluster":
            raise UsageError(
                f"--executor: {file}: '{name}' is not a mapping",
                "write for example mem_gb: 8 below it",
            )
    cluster = values.get("cluster", "slurm")
    if cluster not in STATE_EVERY_S:
        raise UsageError(
            f"--executor: {file}: unknown cluster '{cluster}'",
            f"one of: {', '.join(STATE_EVERY_S)}",
        )
    return {
        "cluster": cluster,
        "jobs": {**USUAL, **(values.get("jobs") or {})},
        "training": values.get("training"),
    }


class _Queue:
    """The calls that one kind of job takes, and these jobs."""

    def __init__(self, name: str, submit: Callable[[str], Any]) -> None:
        self.name = name
        self._submit = submit
        self.open = set[str]()  # names of calls without an answer
        self.jobs = list[Any]()  # jobs that wait or work
        self.broken = ""  # why no job can work; empty while some can
        self._vain = 0  # jobs in a row that ended before they took a call

    def start_jobs(self, calls: CallFolder, most: int) -> None:
        """Look at the jobs, and hand in new ones: as many as calls are open, at most ``most``.

        Calls that an ended job had taken go back to the queue.
        """
        # The first question reads the states of all jobs, the others what it has read.
        ended = []
        for number, job in enumerate(self.jobs):
            if job.done(force_check=number == 0):
                ended.append(job)
        for job in ended:
            self.jobs.remove(job)
            self._vain = 0 if calls.has_begun(self.name, job.job_id) else self._vain + 1
            why = f"the batch system {describe_state(job.state)}"
            # A call that took too much memory would do so again in the next job (decision 0026).
            again = not job.state.startswith("OUT_OF_MEMORY")
            self.open -= calls.give_back(self.name, job.job_id, why, again)
            if self._vain >= STARTS:
                self.broken = f"{why} before it began to work; its log: {job.paths.stderr}"
        while not self.broken and len(self.jobs) < min(most, len(self.open)):
            self.jobs.append(self._submit(self.name))


class SlurmExecutor:
    """Jobs of Slurm; at most ``workers`` of them work at the same time.

    Every machine sees the cache, the images and this installation under the same names. The jobs
    are handed in when calls wait. Devices are measured on this machine.

    Raises:
        UsageError: submitit or Slurm is not installed, or refuses the settings.
    """

    def __init__(self, settings: Mapping[str, Any], workers: int) -> None:
        # Imported here: a job imports this module, and needs neither.
        from advisor.engine import Machine
        from advisor.measurement import host

        require_installed()
        self._settings = settings
        self._most = workers
        self._folder = _search_folder()
        self._lock = threading.Lock()
        self._closed = False
        self._looked = 0.0
        names = ("jobs", PoolKind.TRAINERS) if settings["training"] else ("jobs",)
        self._queues = {name: _Queue(name, self._submit) for name in names}
        self._submitters = {name: self._make_submitter(name) for name in names}
        self.calls = CallFolder(self._folder)
        self.calls.make_folders(names)
        # Jobs run on other machines than measurements, so neither waits for the other.
        self.machine = Machine(AHEAD * workers, separate_measurements=True)
        self.host = host.describe()
        self.pools: dict[str, _SlurmChildren] = {
            kind: _SlurmChildren(self, kind) for kind in PoolKind
        }

    def on_device(
        self, device: str, function: Callable[..., Result], /, *arguments: object
    ) -> Result:
        """Call a measuring function on this machine."""
        return function(*arguments)

    def call(self, call: Call, pause: Pause) -> Any:
        """Return the answer of a job to a call.

        Raises:
            StageError: jobs that worked on it ended, or none can work.
        """
        queue = self._queues.get(call.kind) or self._queues["jobs"]
        # Jobs take the first name, which is the oldest.
        name = f"{time.time_ns():020}-{uuid.uuid4().hex}"
        # The only signal is the one that ends a call: jobs are never paused.
        pause.attach(lambda _signal: self.calls.drop_call(name))
        queue.open.add(name)
        try:
            self.calls.put_call(queue.name, name, call)
            # A call that nobody needs may still wait for a job.
            while not pause.unwanted.is_set():
                answer = self.calls.take_answer(name)
                if answer is not None:
                    break
                with _end_programs(pause):
                    self._supply(queue)
                time.sleep(LOOKS_EVERY_S)
            else:
                raise StageError("nobody needs the result any more")
        except OSError:
            if self._closed:
                # close() deletes the folder while calls still look into it.
                raise StageError("the search has ended") from None
            raise
        finally:
            queue.open.discard(name)
            pause.detach()
        pause.cpu_s = answer.cpu_s
        if answer.error is not None:
            raise answer.error
        return answer

    def close(self) -> None:
        """Cancel the jobs of this search and delete its folder."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            jobs = []
            for queue in self._queues.values():
                jobs += queue.jobs
        for job in jobs:
            # A job that has ended cannot be cancelled any more.
            with contextlib.suppress(Exception):
                job.cancel(check=False)
        shutil.rmtree(self.calls.path, ignore_errors=True)

    def _supply(self, queue: _Queue) -> None:
        """Hand in jobs for a queue; StageError if none can work."""
        with self._lock:
            if self._closed:
                raise StageError("the search has ended")
            if queue.broken:
                raise StageError(queue.broken)
            since_look_s = time.monotonic() - self._looked
            if since_look_s > STATE_EVERY_S[self._settings["cluster"]] or not queue.jobs:
                for queue_of_kind in self._queues.values():
                    queue_of_kind.start_jobs(self.calls, self._most)
                self._looked = time.monotonic()
            elif len(queue.jobs) < min(self._most, len(queue.open)):
                queue.jobs.append(self._submit(queue.name))

    def _submit(self, name: str) -> Any:
        try:
            return self._submitters[name].submit(serve, self.calls.path, name, IDLE_S)
        except TimedOut as error:
            why = f"the batch system gives no answer: {error.message}"
            self._queues[name].broken = why
            raise StageError(why) from None
        # submitit or sbatch raises it: the partition may be wrong, or the account without hours.
        except Exception as error:
            raise StageError(f"the batch system refused a job: {last_line(str(error))}") from None

    def _make_submitter(self, name: str) -> Any:
        import submitit

        logging.getLogger("submitit").setLevel(logging.ERROR)
        parameters = dict(self._settings["jobs"])
        if name == PoolKind.TRAINERS:
            parameters.update(self._settings["training"] or {})
        try:
            submitter = submitit.AutoExecutor(
                folder=self._folder / "logs", cluster=self._settings["cluster"]
            )
            if self._settings["cluster"] == "slurm":
                from advisor.integrations.slurm._programs import BoundedExecutor

                # AutoExecutor makes the executor itself, and has no argument for another one.
                submitter._executor = BoundedExecutor(folder=self._folder / "logs")
            submitter.update_parameters(**parameters)
        except RuntimeError as error:
            why = f"--executor: Slurm is not installed here: {first_line(str(error))}"
            raise UsageError(
                why, "run the search where sbatch, srun and sacct are, or use --executor ray"
            ) from None
        except (ValueError, NameError, TypeError, AssertionError) as error:
            why = f"--executor: Slurm's settings: {first_line(str(error))}"
            raise UsageError(
                why, "names of submitit: mem_gb, timeout_min, slurm_partition, slurm_account"
            ) from None
        return submitter


@contextlib.contextmanager
def _end_programs(pause: Pause) -> Iterator[None]:
    """Let the programs of this thread end as soon as nobody needs the result of a call."""
    before = UNWANTED.set(pause.unwanted)
    try:
        yield
    finally:
        UNWANTED.reset(before)


class _SlurmChildren:
    """Child processes in jobs of the batch system, instead of a pool on this machine."""

    def __init__(self, owner: SlurmExecutor, kind: str) -> None:
        self._owner = owner
        self._kind = kind
        self.peak_bytes = 0

    def call(
        self,
        function: str,
        *args: object,
        limits: CallLimits | None = None,
        pause: Pause | None = None,
    ) -> Any:
        """Run ``module:function`` in a job."""
        answer = self._owner.call(Call(self._kind, function, args, limits), pause or Pause())
        self.peak_bytes = max(self.peak_bytes, answer.peak_bytes)
        return answer.value

    def close(self) -> None:
        """Do nothing: the jobs end with the executor."""


def _search_folder() -> Path:
    """Return a new folder in the cache, which all machines see;
    delete those of searches that were killed long ago.
    """
    root = cache_root() / "slurm"
    # Calls are pickles, which can run code when they are read: nobody else may write here.
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    for folder in root.iterdir():
        if time.time() - folder.stat().st_mtime > STALE_S:
            shutil.rmtree(folder, ignore_errors=True)
    return root / uuid.uuid4().hex[:16]
