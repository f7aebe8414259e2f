"""The documents that the agent prints, as types.

Devices send them, and connections of other packages may make them: the keys are a format. The
agent is sent alone, so it imports this module for type checkers only.
"""

from __future__ import annotations

from typing import Any, TypedDict


class Block(TypedDict):
    """The runs of one block; ``cpu_ns`` is None at several threads,
    ``waited_ns`` where the system does not tell.
    """

    wall_ns: list[int]
    cpu_ns: list[int] | None
    waited_ns: int | None
    elapsed_ns: int


class SeriesDocument(TypedDict):
    """One series in the document: a file at one thread count."""

    model: str
    runtime: str
    threads: int
    load_ns: int
    first_ns: int
    blocks: list[Block]


class LoadReading(TypedDict):
    """The work of other processes meanwhile; None where the system does not tell."""

    elapsed_ns: int
    others_cores: float | None
    cores: int
    governor: str  # frequency governor of the first processor, empty if the system does not tell


class WindowReading(TypedDict):
    """One part of a sustained run; ``cpu_ns`` is None at several threads."""

    start_s: float
    runs: int
    wall_ns: float
    cpu_ns: float | None


class AgentJson(TypedDict):
    """The document of :func:`.agent.measure_series`."""

    runtime: str
    runtime_version: str
    kernels: str
    machine: str
    python: str
    effort: dict[str, Any]
    memory: dict[str, int] | None
    load: LoadReading
    load_content_ns: int | None
    series: list[SeriesDocument]


class SustainedDocument(TypedDict):
    """The document of :func:`.agent.measure_sustained`."""

    runtime: str
    runtime_version: str
    threads: int
    windows: list[WindowReading]
    load: LoadReading
