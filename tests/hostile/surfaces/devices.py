"""Answers of devices: documents of the agent, what a phone's tool prints, and names of hosts and phones."""

import json
import math
import random
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from advisor.devices.connections.adb import check_serial, parse_output
from advisor.devices.connections.agent import check_destination, check_interpreter, read_document, timings_of_agent
from advisor.devices.connections.protocol import Timing
from advisor.isolation.process import Finished
from tests.devices.test_adb import PRINTED
from tests.hostile.damages import BROKEN, wrong_types
from tests.hostile.surfaces.ground import Case, Ground

MOST = 200  # Changed outputs of a phone's tool
BLOCKS = [{"wall_ns": [5, 6, 7], "cpu_ns": [5, 6, 7], "waited_ns": 0, "elapsed_ns": 20} for _ in range(5)]
DOCUMENT = {
    "runtime": "ai-edge-litert", "runtime_version": "2.3.0", "memory": {"private_bytes": 9}, "load": {"loadavg": 0.5},
    "series": [{"model": "a", "threads": 1, "first_ns": 1, "load_ns": 1, "blocks": BLOCKS}] * 2,
}  # fmt: skip
NAMES = (
    "-oProxyCommand=x", "host;reboot", "a b", "$(reboot)", "`x`", "host\nhost", "host\0", "../../x", "\udc80",
    "\x1b[31m", "a|b", "a&b", "a>b", "'", '"', "", "-", "h" * 5000, "\u202e", "*", "~/x", "{}", "user@-host",
    "host -p 22", "!x", "host@",
)  # fmt: skip


def cases(ground: Ground) -> Iterator[Case]:
    """Yield each answer and name; a timing that is taken is a finite time above zero."""
    text = json.dumps(DOCUMENT)
    for number, (label, changed) in enumerate(wrong_types(Path("a.json"), text)):
        yield f"agent {number}, {label}", partial(ground.call, _agent, changed)
    for number, broken in enumerate(BROKEN):
        yield f"agent's output, {number}", partial(ground.call, _agent, f"{text[:40]}{broken}{text[44:]}")
        yield f"agent's last line, {number}", partial(ground.call, _agent, f"{text}\n{broken}")
    for number in range(MOST):
        yield f"phone's tool, {number}", partial(ground.call, _phone, number)
    for name in NAMES:
        for check in (check_destination, check_serial):
            yield f"{check.__name__}, {name[:20]!a}", partial(ground.call, check, name, refused=True)
        refused = not name.isprintable() or name.startswith("-") or not name  # other paths reach the shell quoted
        yield f"interpreter, {name[:20]!a}", partial(ground.call, check_interpreter, name, refused=refused)


def _agent(printed: str) -> None:
    document = read_document(Finished(0, printed, ""))
    _sensible(timings_of_agent(document, [Path("a.tflite")], ["a"]))


def _phone(number: int) -> None:
    draw, lines = random.Random(number), PRINTED.splitlines()
    for _ in range(draw.randint(1, 3)):
        place, broken = draw.randrange(len(lines)), draw.choice(BROKEN)
        start = draw.randrange(len(lines[place]) + 1)
        lines[place] = lines[place][:start] + broken + lines[place][start + draw.randrange(9) :]
    _sensible([parse_output("\n".join(lines), Path("a.tflite"), 1)])


def _sensible(timings: Sequence[Timing]) -> None:
    for timing in timings:
        assert 0 < timing.own_ms < math.inf, timing.own_ms
        assert 0 <= timing.first_ms < math.inf, timing.first_ms
        assert timing.threads > 0, timing.threads
        assert timing.memory_bytes is None or timing.memory_bytes >= 0, timing.memory_bytes
