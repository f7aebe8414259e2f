"""The names that options of a search take, such as samplers and executors, and their parsers.

``_options.py`` and ``_limit_options.py`` name these parsers. Users write the names, so they stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from urllib.parse import urlsplit

from advisor.core._errors import UsageError, nearest
from advisor.core._integrations import list_registered, load_integration
from advisor.core._secrets import without_password
from advisor.core._units import parse_percent, parse_share

EFFORTS: Mapping[str, str] = {"quick": "2min", "standard": "10min", "thorough": "60min"}
"""Time limits by name: a first answer, fine-tuning of the favourite, and of its rivals,
on two cores.
"""

SHOWN_EFFORTS = ", ".join(f"{name} ({limit})" for name, limit in EFFORTS.items())

ROBUST = "robust-accuracy"
OBJECTIVES = ("accuracy", ROBUST)

FIRST = "first"
EACH_NETWORK = "all"
CAPTURES = (FIRST, EACH_NETWORK)
"""The finalists that run under capture conditions:
pick and runner-up, or one file of each network.
"""

LOCAL = "local"
"""The executor of this machine."""

EXECUTORS = "advisor.executors"
"""Entry points of the other executors."""

NEVER = "never"
"""The value of ``--stop-below`` that searches to the end."""

SCHEMES = ("postgresql", "postgres")

CONFIDENCES = (0.5, 0.99)
"""Least and largest share of ``--confidence``."""

CALIBRATED = "predictions are calibrated up to 99%: write for example --confidence 90%"


class ShipOn(StrEnum):
    """Images that the file that ships learns from, as ``--ship-on`` takes them."""

    ALL_BUT_HOLDOUT = "all-but-holdout"
    ALL = "all"


class Sampler(StrEnum):
    """Order of a search, as ``--sampler`` takes it:
    that of the advisor's own rule, or of a sampler of Optuna.
    """

    ADVISOR = "advisor"
    TPE = "tpe"
    NSGA2 = "nsga2"
    GP = "gp"
    RANDOM = "random"


class StudyFile(StrEnum):
    """The files of a run that may hold its study, as ``--storage`` takes them;
    other values are addresses.
    """

    JOURNAL = "journal"
    SQLITE = "sqlite"


def require_known(option: str, value: str, valid: tuple[str, ...]) -> str:
    """Return ``value`` where it is one of the valid names; else UsageError with the nearest."""
    if value not in valid:
        raise UsageError(
            f"{option}: unknown '{value}'{nearest(value, valid)}", f"one of: {', '.join(valid)}"
        )
    return value


def parse_confidence(text: str, option: str) -> float:
    """Return the probability that a predicted latency meets the budget."""
    return parse_share(text, option, CONFIDENCES, CALIBRATED)


def parse_stop_share(text: str, option: str) -> float:
    """Return the points of accuracy over 100 below which a search stops; 0 for never."""
    return 0.0 if text == NEVER else parse_percent(text, option) / 100


def parse_executor(text: str, option: str) -> tuple[str, str]:
    """Return the executor's name and the address of its cluster, empty for none.

    Raises UsageError: another name.
    """
    if text == LOCAL:
        return LOCAL, ""
    name, scheme, address = text.partition("://")
    others = list_registered(EXECUTORS)
    if name not in others or (scheme and not address):
        values = [load_integration(EXECUTORS, other).VALUES for other in others]
        raise UsageError(
            f"{option}: unknown '{text}'{nearest(name, (LOCAL, *others))}",
            f"one of: {', '.join((LOCAL, *values))}",
        )
    return name, address


def parse_storage(storage: str, option: str = "--storage") -> str:
    """Return ``storage`` if it is a kind of file or the address of a PostgreSQL database.

    Raises UsageError: something else.
    """
    if storage in tuple(StudyFile):
        return storage
    try:
        parts = urlsplit(storage)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in SCHEMES:
        # An address may have its password in any place that a person mistypes.
        name = f"{parts.scheme}://..." if "://" in storage else without_password(storage)
        raise UsageError(
            f"{option}: unknown '{name}'{nearest(name, (*StudyFile, SCHEMES[0]))}",
            f"one of: {', '.join(StudyFile)}, postgresql://user@host/database",
        )
    if not parts.path.strip("/"):
        raise UsageError(
            f"{option}: '{without_password(storage)}' names no database",
            "write for example --storage postgresql://user@host/database",
        )
    return storage
