"""How a run was made: command line, versions, durations, weights and the resolved question."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import PurePath

from advisor.core.units import show_seconds
from advisor.reporting import text
from advisor.reporting.view import RunView


def method(view: RunView) -> dict[str, object]:
    """Return the variables of the page's last section."""
    manifest = view.manifest
    known = ("command_line", "versions", "durations", "weights", "without_weights")
    durations = {str(stage): show_seconds(float(value)) for stage, value in (manifest.get("durations") or {}).items()}
    return {
        "command_line": command_line(view),
        "weights": {name: shown(origin) for name, origin in (manifest.get("weights") or {}).items()},
        "versions": manifest.get("versions") or {},
        "durations": durations,
        "request": {key: shown(value) for key, value in view.request.items() if _is_given(value)},
        "manifest": {key: shown(value) for key, value in manifest.items() if key not in known and _is_given(value)},
        "pick": view.decision.pick,
    }


def _is_given(value: object) -> bool:
    return value is not None and value is not False and value != "" and value != [] and value != {}


def command_line(view: RunView) -> str:
    """Return the command line, ready to be typed again; the program is without its folder."""
    given = view.manifest.get("command_line") or ""
    if isinstance(given, str):
        return given
    program, *arguments = (str(part) for part in given)
    name = PurePath(program).name
    return shlex.join(["advisor" if name in ("__main__.py", "advisor.exe") else name, *arguments])


def shown(value: object) -> str:
    """Return a value of the manifest on one line."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {shown(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(shown(item) for item in value)
    return text.plain(value)
