"""Ask the programs of Slurm with time limits: a controller that does not answer would let them
wait for ever.

``slurm/__init__.py`` hands in jobs by :class:`BoundedExecutor`. The classes override private
methods of submitit 1.5.4, so ``pyproject.toml`` allows no later minor version. Before you raise
that limit, compare these methods with those of the new version.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from typing import Any

import submitit
from submitit.core.utils import JobPaths
from submitit.slurm.slurm import SlurmInfoWatcher, SlurmJob

from advisor.core import AdvisorError
from advisor.isolation import run_program

SUBMIT_S = 120.0
"""Seconds that ``sbatch`` may take."""

LOOK_S = 30.0
"""Seconds that ``sacct`` and ``scancel`` may take."""


class BoundedWatcher(SlurmInfoWatcher):  # type: ignore[misc]  # submitit has no types here
    """Asks ``sacct`` for the states of jobs.

    A state that it does not answer in time or in words stays as it was.
    """

    def update(self) -> None:
        """Ask for the states of all jobs that have not ended."""
        command = self._make_command()
        if command is None:
            return
        self._num_calls += 1
        with contextlib.suppress(AdvisorError, KeyError, ValueError):
            self._info_dict.update(self.read_info(run_program(command, timeout_s=LOOK_S).stdout))
        self._last_status_check = time.time()
        waiting = self._registered - self._finished
        self._finished |= {job for job in waiting if self.is_done(job, mode="cache")}


class BoundedJob(SlurmJob[Any]):  # type: ignore[misc]
    """A job whose programs have an end."""

    # The delay is submitit's own; the executor asks for states more often.
    watcher = BoundedWatcher(delay_s=600)

    def cancel(self, check: bool = True) -> None:
        """Cancel the job; ``check``: raise what ``scancel`` says."""
        try:
            run_program([self._cancel_command, self.job_id], timeout_s=LOOK_S)
        except AdvisorError:
            if check:
                raise


class BoundedExecutor(submitit.SlurmExecutor):  # type: ignore[misc]
    """Hands in jobs as submitit does, and waits for ``sbatch`` for :data:`SUBMIT_S` at most."""

    job_class = BoundedJob

    def _submit_command(self, command: str) -> BoundedJob:
        name = uuid.uuid4().hex
        script = (
            JobPaths.get_first_id_independent_folder(self.folder) / f".submission_file_{name}.sh"
        )
        script.write_text(self._make_submission_file_text(command, name), encoding="utf-8")
        outcome = run_program(self._make_submission_command(script), timeout_s=SUBMIT_S)
        if outcome.status != 0:
            raise RuntimeError(outcome.complaint)
        tasks = list(range(self._num_tasks()))
        job = BoundedJob(
            self.folder, self._get_job_id_from_submission_command(outcome.stdout), tasks
        )
        job.paths.move_temporary_file(script, "submission_file", keep_as_symlink=True)
        self._write_job_id(job.job_id, name)
        self._set_job_permissions(job.paths.folder)
        return job
