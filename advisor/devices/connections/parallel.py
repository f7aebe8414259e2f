"""Several devices at once, one measurement at a time each; one that fails does not stop the others."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from advisor.core.errors import AdvisorError
from advisor.devices.connections.protocol import Connection, Job, Timing


@dataclass(frozen=True)
class Outcome:
    """What became of one device.

    Attributes:
        label: the device.
        timings: its measurements, empty where it failed.
        reason: why it failed, or empty.
    """

    label: str
    timings: tuple[Timing, ...] = ()
    reason: str = ""


def measure_all(jobs: Sequence[tuple[Connection, Job]]) -> tuple[Outcome, ...]:
    """Measure every job, each device's jobs in turn and the devices side by side.

    Returns:
        one outcome a job, in the order given.
    """
    lanes: dict[str, list[int]] = {}
    for index, (connection, _) in enumerate(jobs):
        lanes.setdefault(connection.label, []).append(index)
    outcomes: dict[int, Outcome] = {}

    def work(indices: list[int]) -> None:
        for index in indices:
            outcomes[index] = _measure(*jobs[index])

    with ThreadPoolExecutor(max_workers=max(1, len(lanes)), thread_name_prefix="device") as pool:
        list(pool.map(work, lanes.values()))
    return tuple(outcomes[index] for index in range(len(jobs)))


def _measure(connection: Connection, job: Job) -> Outcome:
    try:
        return Outcome(connection.label, connection.measure(job))
    except AdvisorError as error:
        return Outcome(connection.label, reason=error.message)
