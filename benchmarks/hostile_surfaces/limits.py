"""Commands with little memory, small files and few open files."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from benchmarks.hostile_surfaces.attempts import HANG
from benchmarks.hostile_surfaces.ground import Case, Ground, found
from tests.run_folders import images, write_run

COMMANDS = {
    "catalog": ("catalog", "list"),
    "devices": ("devices", "list"),
    "plan": ("plan", "--budget", "50ms", "--candidates", "squeezenet*", "--device", "raspberry-pi-4"),
    "report": ("report", "RUN", "--to", "out"),
    "compare": ("compare", "RUN", "RUN"),
    "export": ("export", "RUN", "--list"),
    "resume": ("search", "--resume", "RUN", "--offline", "--time-limit", "1s"),
    "search": ("search", "--budget", "50ms", "--candidates", "squeezenet_1.1_227", "--offline", "--time-limit", "1s"),
}
MEGABYTE = 1_000_000
LIMITS: Mapping[str, tuple[int, Sequence[int]]] = {
    "memory": (resource.RLIMIT_AS, [size * MEGABYTE for size in (200, 250, 300, 400, 600, 800, 1200, 1600, 2400)]),
    "file size": (resource.RLIMIT_FSIZE, (0, 1, 100, 1000, 4000, 20_000, 100_000, MEGABYTE)),
    "open files": (resource.RLIMIT_NOFILE, (8, 10, 12, 16, 24, 32, 64)),
}
"""Kinds and sizes; Python itself does not start with less memory or fewer files."""


def cases(ground: Ground) -> Iterator[Case]:
    """Yield each command within each limit."""
    run = write_run(ground.folder / "runs", dataset=images({"cat": 10, "dog": 10})).path
    for name, words in COMMANDS.items():
        arguments = [str(run) if word == "RUN" else word for word in words]
        for kind, (limit, sizes) in LIMITS.items():
            for size in sizes:
                yield f"{name}, {kind} {size}", partial(_tried, ground, arguments, limit, size)


def _tried(ground: Ground, arguments: Sequence[str], limit: int, size: int) -> Sequence[str]:
    place = ground.fresh()
    command = [sys.executable, "-P", "-m", "advisor", *arguments]
    environment = {**os.environ, "ADVISOR_CACHE_DIR": str(ground.folder / "cache"), "NO_COLOR": "1"}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"  # Python keeps a module that the limit cut off, for all that follow
    try:
        said = subprocess.run(
            command, cwd=place, capture_output=True, timeout=ground.soon_s, env=environment,
            preexec_fn=lambda: resource.setrlimit(limit, (size, size)),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return (HANG,)
    out, err = (text.decode("utf-8", "replace") for text in (said.stdout, said.stderr))
    return found(said.returncode, out, err)
