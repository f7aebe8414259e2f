"""Prepare a demonstration of a search: its images, its options, and its time limit.

``advisor search --demo`` asks for it through :func:`advisor.api.demonstrate`. The images are
drawn, so a demonstration needs no data of the user and no network.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from advisor.core import UsageError, units
from advisor.datasets import draw_demo

DEMO_IMAGES = "demo-images"
"""Folder of the images of a demonstration, below the folder of runs."""

DEMO_OPTIONS = {"budget": "50ms", "training": "head"}
"""Options of a demonstration, which also runs without TensorFlow (decision 0142)."""

DEMO_LIMIT_S = 105.0
"""Seconds of a demonstration that has a core for itself: an answer in two minutes."""

MOST_WAITING = 3.0
"""Largest factor on this limit beside other programs: five minutes."""

SHORT_WORK_S = 0.5
"""CPU seconds of work from which on its wait for a core shows how busy the machine is."""

NOT_IN_DEMO = ("task", "data", "unknown", "request", "resume", "extend")
"""Options that name other images or another question than those of a demonstration."""


def prepare_demonstration(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Draw the images of a demonstration, and return the options of its search:
    those given, else its own.

    Raises UsageError: an option names other images, or the folder cannot be written.
    """
    chosen = {name: value for name, value in options.items() if value is not None}
    for name in NOT_IN_DEMO:
        if name in chosen:
            raise UsageError(
                f"--demo draws its own images and cannot be combined with --{name}",
                f"leave out --demo, or --{name}",
            )
    began_s = time.monotonic()
    # Clock and processor together tell how long the work waited for a core of a busy machine.
    began_cpu_s = time.process_time()
    folder = draw_demo(Path(chosen.get("out", "runs")) / DEMO_IMAGES)
    time_limit = choose_demo_limit(time.monotonic() - began_s, time.process_time() - began_cpu_s)
    return {**DEMO_OPTIONS, "time_limit": time_limit, **chosen, "data": str(folder)}


def choose_demo_limit(drawing_s: float, drawing_cpu_s: float) -> str:
    """Return the time limit of a demonstration:
    ``1min45s`` for a whole core, more if drawing its images got less.

    Args:
        drawing_s: seconds by the clock that the images took.
        drawing_cpu_s: CPU seconds of the same work; less than :data:`SHORT_WORK_S` says nothing.
    """
    waiting = drawing_s / drawing_cpu_s if drawing_cpu_s > SHORT_WORK_S else 1.0
    return units.write_seconds(DEMO_LIMIT_S * min(max(1.0, waiting), MOST_WAITING))
