"""Find integrations by entry points, and the names that options may take."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from advisor.core._errors import UsageError, nearest
from advisor.core._units import parse_percent, parse_share

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

EFFORTS: Mapping[str, str] = {"quick": "2min", "standard": "10min", "thorough": "60min"}
"""Time limits by name: a first answer, fine-tuning of the favourite, and of its rivals, on two cores."""

SHOWN_EFFORTS = ", ".join(f"{name} ({limit})" for name, limit in EFFORTS.items())

ROBUST = "robust-accuracy"
OBJECTIVES = ("accuracy", ROBUST)

FIRST = "first"
ALL = "all"
CAPTURES = (FIRST, ALL)
"""The finalists that run under capture conditions: pick and runner-up, or one file of each network."""

ALL_BUT_HOLDOUT, ALL_IMAGES = SHIP_ON = ("all-but-holdout", "all")
"""Images that the file that ships learns from, as ``--ship-on`` takes them."""

ADVISOR = "advisor"
TPE = "tpe"
NSGA2 = "nsga2"
GP = "gp"
RANDOM = "random"
SAMPLERS = (ADVISOR, TPE, NSGA2, GP, RANDOM)

LOCAL = "local"
"""The executor of this machine."""

EXECUTORS = "advisor.executors"
"""Entry points of the other executors."""

NEVER = "never"
"""The value of ``--stop-below`` that searches to the end."""

JOURNAL = "journal"
SQLITE = "sqlite"
SCHEMES = ("postgresql", "postgres")

CONFIDENCES = (0.5, 0.99)
"""Least and largest share of ``--confidence``."""

CALIBRATED = "predictions are calibrated up to 99%: write for example --confidence 90%"

_SCHEME = r"[a-z][a-z0-9+.-]{0,30}"  # bounded: a text of a million letters takes no longer
_AS_PATH = r"https?|s?ftp|s3|gs|ssh|postgresql|postgres"  # a path keeps one of its slashes
_ADDRESS = re.compile(rf"({_SCHEME}(?=://)|\b(?:{_AS_PATH})(?=:/)):/{{1,2}}((?:(?!{_SCHEME}://)[^\n])*)", re.IGNORECASE)
_LOGIN = re.compile(r"(?<![^\s:='\"])([^\s:/@]+):[^\s:/@]+@(?=[\w\[])")  # without //, as in a typing error
_PORT = re.compile(r":\d{1,5}\W*$")
_NAMES = r"[\w.-]{0,30}(?:passw|passfile|token|secret|signature|credential|api_?key|access_?key)[\w.-]{0,30}|sig"
_SECRET, _SECRET_WITH_SPACE = (
    re.compile(rf"([?&#;])(?:(?:{_NAMES})=[{value}]*(?:&|(?![{value}])))+", re.IGNORECASE)
    for value in (r"^&#\s", r"^&#\n")
)


# A room that asks for integrations names the group of their entry points, and declares what each of them offers. It
# imports none of them: neither the folders of ``advisor.integrations`` nor packages of others.


def registered(group: str) -> tuple[str, ...]:
    """Return the names in a group such as ``advisor.commands``, sorted; UsageError if the metadata lack it."""
    return tuple(_entry_points(group))


@cache
def integration(group: str, name: str) -> Any:
    """Return what has a name, and import its module; UsageError if it is gone: the metadata are of another version."""
    point = _entry_points(group).get(name)
    if point is None:
        raise _other_version(f"'{group}' has no '{name}'")
    return load_entry_point(point)


def load_entry_point(point: EntryPoint) -> Any:
    """Import what an entry point names; UsageError if its package was written for another version of this one."""
    try:
        return point.load()
    except ImportError as error:
        missing = error.name or ""
        if missing == point.module:
            raise _other_version(f"'{point.group}' names '{point.value}', which is gone") from None
        if not missing.startswith("advisor."):
            raise
        room = ".".join(missing.split(".")[:2])
        raise UsageError(
            f"the package of '{point.value}' imports from {missing} what this version of advisor does not have",
            f"since 0.2.0 another package imports the rooms alone: from {room} import NAME",
        ) from None


@cache
def _entry_points(group: str) -> Mapping[str, EntryPoint]:
    # Takes 30 ms, which a help text does not need.
    from importlib.metadata import entry_points

    points: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group=group), key=lambda entry_point: entry_point.name):
        points.setdefault(point.name, point)
    if not points:
        raise _other_version(f"'{group}' is empty")
    return points


def _other_version(problem: str) -> UsageError:
    return UsageError(
        f"advisor is not installed, or another version of it is: of its entry points, {problem}",
        "install it again: pip install ondevice-advisor, or in its source folder: pip install -e . --no-deps",
    )


def require_known(option: str, value: str, valid: tuple[str, ...]) -> str:
    """Return ``value`` where it is one of the valid names; else UsageError with the nearest."""
    if value not in valid:
        raise UsageError(f"{option}: unknown '{value}'{nearest(value, valid)}", f"one of: {', '.join(valid)}")
    return value


def confidence(text: str, option: str) -> float:
    """Return the probability that a predicted latency meets the budget."""
    return parse_share(text, option, CONFIDENCES, CALIBRATED)


def stop_share(text: str, option: str) -> float:
    """Return the points of accuracy over 100 below which a search stops; 0 for never."""
    return 0.0 if text == NEVER else parse_percent(text, option) / 100


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
    """Return ``text`` without the secrets of the addresses in it, for all that is kept or shown.

    Passwords and parameters such as ``token=`` are left out; of a web address the user too, who may be a token.
    """
    shown = _ADDRESS.sub(_plain, text) if ":/" in text else text
    return _LOGIN.sub(r"\1@", shown) if "@" in shown else shown


def without_passwords(value: Any) -> Any:
    """Return a JSON value whose texts have no secrets, see :func:`without_password`."""
    if isinstance(value, Mapping):
        return {key: without_passwords(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [without_passwords(entry) for entry in value]
    return without_password(value) if isinstance(value, str) else value


def _plain(address: re.Match[str]) -> str:
    """Return an address without secrets.

    A password may hold a space, ``/``, ``?`` or ``@`` as it is, and then ends at the last ``@``. A colon before a port
    begins no password in a web address, which may have an ``@`` in its path.
    """
    scheme, rest = address.groups()
    web = scheme.lower() in ("http", "https")
    authority = re.split(r"[\s/?#]", rest, maxsplit=1)[0]
    end = authority.rfind("@")
    if ":" in authority and (not web or (end < 0 and not _PORT.search(authority))):
        end = rest.rfind("@")
    user = "" if web or end < 0 else rest[:end].partition(":")[0] + "@"
    secret = _SECRET if web else _SECRET_WITH_SPACE
    return f"{scheme}://{user}{secret.sub(_joint, rest[end + 1 :])}"


def _joint(parameters: re.Match[str]) -> str:
    """Return the separator that is left where parameters were removed."""
    return parameters[1] if parameters[0].endswith("&") else ""
