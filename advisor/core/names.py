"""Find integrations by entry points, and the names that options may take."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from advisor.core.errors import UsageError, nearest
from advisor.core.units import percent, share

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


# A room that asks for integrations names the group of their entry points, and declares what each of them offers. It
# imports none of them: neither the folders of ``advisor.integrations`` nor packages of others.


def registered(group: str) -> tuple[str, ...]:
    """Return the names in a group such as ``advisor.commands``, sorted; UsageError if the metadata lack it."""
    return tuple(_entry_points(group))


@cache
def integration(group: str, name: str) -> Any:
    """Return what has a name, and import its module; UsageError if it is gone: the metadata are of another version."""
    found = _entry_points(group).get(name)
    if found is None:
        raise _other_version(f"'{group}' has no '{name}'")
    try:
        return found.load()
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("advisor."):
            raise
        raise _other_version(f"'{group}' names '{found.value}', which is gone") from None


@cache
def _entry_points(group: str) -> Mapping[str, EntryPoint]:
    from importlib.metadata import entry_points  # takes 30 ms, which a help text does not need

    found: dict[str, EntryPoint] = {}
    for each in sorted(entry_points(group=group), key=lambda found: found.name):
        found.setdefault(each.name, each)
    if not found:
        raise _other_version(f"'{group}' is empty")
    return found


def _other_version(problem: str) -> UsageError:
    return UsageError(
        f"advisor is not installed, or another version of it is: of its entry points, {problem}",
        "install it again: pip install ondevice-advisor, or in its source folder: pip install -e . --no-deps",
    )


EFFORTS: Mapping[str, str] = {"quick": "2min", "standard": "10min", "thorough": "60min"}
"""Time limits by name: a first answer, fine-tuning of the favourite, and of its rivals, on two cores."""

SHOWN_EFFORTS = ", ".join(f"{name} ({limit})" for name, limit in EFFORTS.items())

ROBUST = "robust-accuracy"
OBJECTIVES = ("accuracy", ROBUST)

FIRST, ALL = "first", "all"
CAPTURES = (FIRST, ALL)
"""The finalists that run under capture conditions: pick and runner-up, or one file of each network."""

ALL_BUT_HOLDOUT, ALL_IMAGES = SHIP_ON = ("all-but-holdout", "all")
"""Images that the file that ships learns from, as ``--ship-on`` takes them."""

ADVISOR, TPE, NSGA2, GP, RANDOM = "advisor", "tpe", "nsga2", "gp", "random"
SAMPLERS = (ADVISOR, TPE, NSGA2, GP, RANDOM)

LOCAL = "local"
"""The executor of this machine."""

EXECUTORS = "advisor.executors"
"""Entry points of the other executors."""

NEVER = "never"
"""The value of ``--stop-below`` that searches to the end."""

JOURNAL, SQLITE = "journal", "sqlite"
SCHEMES = ("postgresql", "postgres")

CONFIDENCES = (0.5, 0.99)
"""Least and largest share of ``--confidence``."""

CALIBRATED = "predictions are calibrated up to 99%: write for example --confidence 90%"

_SECRETS = ("password", "sslpassword", "passfile")
_ADDRESS = re.compile(r"postgres(?:ql)?(?:\+\w+)?://\S+")


def require_known(option: str, value: str, valid: tuple[str, ...]) -> str:
    """Return ``value`` where it is one of the valid names; else UsageError with the nearest."""
    if value not in valid:
        raise UsageError(f"{option}: unknown '{value}'{nearest(value, valid)}", f"one of: {', '.join(valid)}")
    return value


def confidence(text: str, option: str) -> float:
    """Return the probability that a predicted latency meets the budget."""
    return share(text, option, CONFIDENCES, CALIBRATED)


def stop_share(text: str, option: str) -> float:
    """Return the points of accuracy over 100 below which a search stops; 0 for never."""
    return 0.0 if text == NEVER else percent(text, option) / 100


def executor_of(text: str, option: str) -> tuple[str, str]:
    """Return the executor's name and the address of its cluster, empty if none is given; else UsageError."""
    if text == LOCAL:
        return LOCAL, ""
    name, scheme, address = text.partition("://")
    others = registered(EXECUTORS)
    if name not in others or (scheme and not address):
        values = [integration(EXECUTORS, other).VALUES for other in others]
        raise UsageError(
            f"{option}: unknown '{text}'{nearest(name, (LOCAL, *others))}", f"one of: {', '.join((LOCAL, *values))}"
        )
    return name, address


def check_storage(storage: str, option: str = "--storage") -> str:
    """Return ``storage`` where it is a kind of file or the address of a PostgreSQL database; else UsageError."""
    if storage in (JOURNAL, SQLITE):
        return storage
    try:
        parts = urlsplit(storage)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in SCHEMES:
        name = without_password(storage) if "://" not in storage else f"{parts.scheme}://..."
        raise UsageError(
            f"{option}: unknown '{name}'{nearest(name, (JOURNAL, SQLITE, SCHEMES[0]))}",
            f"one of: {JOURNAL}, {SQLITE}, postgresql://user@host/database",
        )
    if not parts.path.strip("/"):
        raise UsageError(
            f"{option}: '{without_password(storage)}' names no database",
            "write for example --storage postgresql://user@host/database",
        )
    return storage


def without_password(text: str) -> str:
    """Return ``text`` without the passwords of the database addresses in it."""
    return _ADDRESS.sub(lambda match: _plain(match.group()), text)


def _plain(address: str) -> str:
    parts = urlsplit(address)
    user, at, server = parts.netloc.rpartition("@")
    query = urlencode([(key, value) for key, value in parse_qsl(parts.query) if key not in _SECRETS], safe="/")
    return urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}{at}{server}", query=query))
