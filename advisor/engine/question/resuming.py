"""The question of a run that goes on: its own, and what may be given anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from advisor.core import units
from advisor.core.errors import UsageError
from advisor.engine.question.parsing import read_file, resolve
from advisor.engine.question.values import Request
from advisor.engine.scheduling.storage import without_password

FREE_ON_RESUME = (
    "time_limit",
    "max_trials",
    "stop_below",
    "offline",
    "mirror",
    "remeasure",
    "storage",
    "out",
    "executor",
    "workers",
    "shared_folder",
)
"""Options that a resumed run may be given anew: they do not change the question."""


def resolve_resumed(
    stored: Mapping[str, Any], options: Mapping[str, Any], file: Path | None = None, extend: str | None = None
) -> Request:
    """Return the request of a run that goes on: its own, with what may be given anew.

    Args:
        stored: the run's request.
        options: what was given; None values are not given.
        file: YAML with the same keys.
        extend: a new time limit, from now.

    Raises:
        UsageError: an option that differs from the run's own, or as :func:`resolve`.
    """
    own = resolve({key: value for key, value in stored.items() if key != "schema_version"})
    given = {key: value for key, value in options.items() if value is not None}
    values = {**(dict(read_file(file)) if file else {}), **given}
    wanted = resolve({**own.to_dict(), **values})
    for key in values:
        if key not in FREE_ON_RESUME and getattr(wanted, key) != getattr(own, key):
            _refuse_other(key, getattr(own, key), getattr(wanted, key))
    if without_password(wanted.storage) != own.to_dict()["storage"]:
        _refuse_other("storage", own.to_dict()["storage"], without_password(wanted.storage))
    changed = replace(wanted, out=own.out)
    return replace(changed, time_limit=extend) if extend and units.seconds(extend, "--extend") else changed


def _refuse_other(key: str, own: Any, wanted: Any) -> None:
    shown = [", ".join(map(str, value)) if isinstance(value, tuple) else str(value) for value in (own, wanted)]
    option = f"--{key.replace('_', '-')}"
    raise UsageError(
        f"--resume: the run was begun with {f'{option} {shown[0]}' if shown[0] else f'no {option}'}, not {shown[1]}",
        "leave it out to go on with the run's own question; start a new run for another one (what is done is reused), "
        "or decide again under other limits with advisor report",
    )
