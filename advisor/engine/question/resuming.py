"""The request of a resumed run: the run's own question, with what may be given anew."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from advisor.core import units
from advisor.core.errors import UsageError
from advisor.engine.question.options import ExecutionOptions, OutputOptions, names_of, read_file
from advisor.engine.question.parsing import resolve
from advisor.engine.question.values import Request

FREE_ON_RESUME = (*names_of(ExecutionOptions), *names_of(OutputOptions))
"""Options that may differ from the run's own: they do not change what is asked. ``storage`` may add a password."""


def resolve_resumed(
    stored: Mapping[str, object], options: Mapping[str, object], file: Path | None = None, extend: str | None = None
) -> Request:
    """Return the request of a run that goes on: the run's own, with what may be given anew.

    The run stays in its folder, whatever ``out`` says.

    Args:
        stored: the run's request.
        options: value by name of the option; None is an option that was not given.
        file: YAML with the same names.
        extend: a new time limit, from now.

    Raises:
        UsageError: an option of the question that differs from the run's own, or as :func:`resolve`.
    """
    own = resolve({key: value for key, value in stored.items() if key != "schema_version"})
    given = {key: value for key, value in options.items() if value is not None}
    values = {**(read_file(file) if file else {}), **given, "out": own.written["out"]}
    if extend and units.seconds(extend, "--extend"):
        values["time_limit"] = extend
    wanted = resolve({**own.written, **values})
    for key in [*(key for key in values if key not in FREE_ON_RESUME), "storage"]:
        if wanted.written[key] != own.written[key]:
            _refuse_other(key, own.written[key], wanted.written[key])
    return wanted


def _refuse_other(key: str, own: object, wanted: object) -> None:
    shown = [", ".join(map(str, value)) if isinstance(value, list) else str(value) for value in (own, wanted)]
    option = f"--{key.replace('_', '-')}"
    raise UsageError(
        f"--resume: the run was begun with {f'{option} {shown[0]}' if shown[0] else f'no {option}'}, not {shown[1]}",
        "leave it out to go on with the run's own question; start a new run for another one (finished work is reused), "
        "or decide again under other limits with advisor report",
    )
