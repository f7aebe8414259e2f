"""The command that asks for limits which a file meets, where nothing meets those of a question.

The next step of an answer (``_view.py``) has it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from advisor.core import Relaxation
    from advisor.engine import LoadedRun

LIMIT_OPTIONS = {
    "latency": "--budget",
    "size": "--size-budget",
    "drop": "--max-drop",
    "memory": "--memory-budget",
}
"""Options that set upper limits, by the name of the limit."""


def make_looser_command(folder: str, run: LoadedRun, relaxation: Relaxation) -> str:
    """Return the command that asks for the looser limits of a relaxation;
    empty if no option sets one of them.
    """
    looser = _list_looser_options(run, relaxation)
    if not looser:
        return ""
    if run.own_question and not relaxation.is_of_floor:
        words = ["advisor search --request", f"{folder}/request.yaml"]
    else:
        # The figures are there: of this question with a lower floor, and of another question.
        words = ["advisor report", folder, *_repeat_changes(run, looser)]
    for option, value in looser.items():
        words += [option, value]
    return " ".join(words)


def _list_looser_options(run: LoadedRun, relaxation: Relaxation) -> Mapping[str, str]:
    """Return the options with the looser limits of a relaxation;
    none if no option sets one of them.
    """
    limits = run.question.limits
    if relaxation.is_of_floor:
        floors = {}
        for name, value in limits.floors.items():
            floors[name] = f"{value:g}%"
        floors[relaxation.limit] = relaxation.needed.replace(" ", "")
        return {"--min-accuracy": _join_by_metric(floors)}
    if relaxation.limit in limits.drops:
        drops = {}
        for name, value in limits.drops.items():
            drops[name.removesuffix(" drop")] = f"{value:g}pt"
        drops[relaxation.limit.removesuffix(" drop")] = relaxation.needed.replace(" points", "pt")
        return {"--max-drop": _join_by_metric(drops)}
    # Where no limit alone helps, one relaxation has several:
    # "latency and size", "0.97 ms and 297.9 kB".
    names = relaxation.limit.split(" and ")
    ends = relaxation.needed.split(" and ")
    if not LIMIT_OPTIONS.keys() >= set(names) or len(names) != len(ends):
        return {}
    options = {}
    for name, end in zip(names, ends, strict=True):
        typed = end.replace(" points", "pt").replace(" ", "")
        options[LIMIT_OPTIONS[name]] = typed
    return options


def _repeat_changes(run: LoadedRun, looser: Mapping[str, str]) -> Iterator[str]:
    """Yield the options of another question than the run's, without those that are ``looser``."""
    for name, value in run.changes.items():
        option = f"--{name.replace('_', '-')}"
        values = value if isinstance(value, list | tuple) else (value,)
        if option not in looser:
            for text in filter(None, values):
                yield option
                yield shlex.quote(str(text))


def _join_by_metric(limits: Mapping[str, str]) -> str:
    """Return the limits of several metrics as an option takes them;
    that of the accuracy has no name.
    """
    parts = []
    for name, value in limits.items():
        parts.append(value if name in ("accuracy", "drop") else f"{name}={value}")
    return ",".join(parts)
