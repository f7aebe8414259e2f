"""The document that the profiling processes print, as types."""

from __future__ import annotations

from typing import NamedTuple, TypedDict


class Event(NamedTuple):
    """One event of the profiler.

    Attributes:
        tag: name of the kernel.
        kind: event type of TensorFlow Lite's profiler.
        operator: index of the operator, as the kernel reports it.
        time_us: its time in microseconds.
    """

    tag: str
    kind: int
    operator: int
    time_us: float


class Run(TypedDict):
    """One profiled run: its wall time, the time of the whole graph, and the events in order of execution."""

    wall_us: float
    whole_us: float
    events: list[Event]


class Document(TypedDict):
    """All runs of one file.

    ``plain_us`` are the times of runs without the profiler. ``shapes`` are the shapes of the tensors, None if the file
    states them.
    """

    schema_version: int
    runtime: str
    plain_us: list[float]
    runs: list[Run]
    shapes: list[list[int]] | None
