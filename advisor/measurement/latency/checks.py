"""Check the options of a measurement before anything is timed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from advisor.core.errors import UsageError, nearest
from advisor.measurement.latency.findings import FileBenchmark
from advisor.measurement.latency.timing import Setup
from advisor.measurement.processes.child import existing_model, refuse_too_large
from advisor.measurement.processes.runtimes import interpreter, parse

Tell = Callable[[str], None]
EFFORTS = ("quick", "normal", "full", "search")


@dataclass(frozen=True)
class Plan:
    """What to measure for each file.

    Attributes:
        threads: thread counts without repeats.
        effort: name of the effort.
        setup: how to load a file.
        contended: whether to measure during a load on the other processors, too.
        sustained_s: seconds of an additional run without a pause, None for no such run.
        pipeline: whether to measure from an image file to an answer, too.
        image: the image for that, None for a bundled photograph.
    """

    threads: tuple[int, ...]
    effort: str
    setup: Setup
    contended: bool
    sustained_s: float | None
    pipeline: bool
    image: Path | None


def known_effort(name: str) -> str:
    """Return the name of an effort if it exists.

    Raises:
        UsageError: there is no effort of this name.
    """
    if name not in EFFORTS:
        raise UsageError(f"unknown effort '{name}'{nearest(name, EFFORTS)}", f"efforts: {', '.join(EFFORTS)}")
    return name


def distinct(models: Sequence[Path | str]) -> list[str]:
    """Return the paths as text.

    Raises:
        UsageError: there is no path, or one is given twice.
    """
    names = [str(model) for model in models]
    if not names:
        raise UsageError("no model given", "give one or more .tflite files")
    twice = next((name for index, name in enumerate(names) if name in names[:index]), None)
    if twice is not None:
        raise UsageError(f"'{twice}' is given twice", "to compare a file with itself, copy it under another name")
    return names


def described(model: str) -> FileBenchmark:
    """Read a file and return its size and the memory of its activations.

    Raises:
        UsageError: it is missing, damaged, or larger than the free memory.
    """
    from advisor.tflite.arena import activation_arena_bytes
    from advisor.tflite.model import read

    path = existing_model(model)
    graph = read(path)
    arena = activation_arena_bytes(graph)
    refuse_too_large(path.name, graph.size_bytes + arena)
    return FileBenchmark(model, graph.size_bytes, arena)


def python_of(runtime: str | None, say: Tell) -> Path | None:
    """Return the Python interpreter of another runtime's environment, None for this environment."""
    if runtime is None:
        return None
    asked = parse(runtime)
    say(f"preparing {asked}")
    return interpreter(asked)


def usable(cpus: Sequence[int] | None) -> tuple[int, ...] | None:
    """Return the processors to pin the threads to, without repeats; None for all.

    Raises:
        UsageError: this process may not use one of them.
    """
    if not cpus:
        return None
    import os

    usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    wrong = next((cpu for cpu in cpus if cpu not in usable), None)
    if wrong is not None:
        raise UsageError(f"--cpus: processor {wrong} cannot be used", f"processors: {', '.join(map(str, usable))}")
    return tuple(dict.fromkeys(cpus))
