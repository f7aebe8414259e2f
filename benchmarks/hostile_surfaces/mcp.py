"""Calls of the tools of ``advisor mcp`` with arguments that no assistant means."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks.hostile_surfaces.damages import BROKEN, WRONG
from benchmarks.hostile_surfaces.ground import Case, Ground
from tests.integrations.test_mcp import called

PATHS = ("/etc", "../x", "/proc/self/environ", "~", "runs/../../x", "link/x", "/dev/zero", "\0", "a" * 5000)
TAKES: dict[str, tuple[str, dict[str, Any]]] = {
    "report": ("run", {}),
    "compare": ("before", {"after": "x"}),
    "export": ("run", {"to": "x"}),
    "benchmark": ("model", {}),
    "plan": ("data", {"budget": "9ms"}),
    "search": ("data", {"budget": "9ms"}),
}
"""Tools, their argument that is a path, and others that they need."""
TEXTS: dict[str, tuple[str, dict[str, Any]]] = {
    "report": ("budget", {"run": "x"}),
    "benchmark": ("threads", {"model": "x"}),
    "plan": ("budget", {}),
    "search": ("time_limit", {"budget": "9ms"}),
}


def cases(ground: Ground) -> Iterator[Case]:
    """Yield the calls; each tool must refuse."""
    for tool, (name, others) in TAKES.items():
        for number, path in enumerate(PATHS):
            yield f"{tool}, {name}, {number}", partial(ground.call, _refused, ground, tool, {**others, name: path})
    for tool, (name, others) in TEXTS.items():
        for number, value in enumerate((*WRONG, *BROKEN[4::4])):
            yield f"{tool}, value {number}", partial(ground.call, _refused, ground, tool, {**others, name: value})


def _refused(ground: Ground, tool: str, arguments: dict[str, Any]) -> None:
    folder = ground.fresh()
    (folder / "link").symlink_to("/etc")
    assert called(folder, tool, arguments).is_error
