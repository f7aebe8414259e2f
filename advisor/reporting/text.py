"""Figures, untrusted names and terms of the reports as text."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from advisor.core.errors import UsageError, nearest
from advisor.core.evaluation import HOST, Evaluation
from advisor.core.quantity import Interval, Quantity
from advisor.core.units import plain as plain, plural as plural

DASH = "\u2013"
MINUS = "\u2212"
MISSING = DASH


def inner(part: str, escape: Callable[[str], str] = plain) -> str:
    """Return a piece of a sentence escaped, with the spaces at its ends."""
    before, after = len(part) - len(part.lstrip(" ")), len(part.rstrip(" "))
    return f"{part[:before]}{escape(part[before:after])}{part[max(before, after) :]}"


def number(value: float) -> str:
    """Format with three significant digits and at most two decimals: ``0.85``, ``12.3``, ``142``."""
    if abs(value) >= 99.95:
        return f"{value:,.0f}".replace(",", "\u202f" if abs(value) >= 9999.5 else "")
    return f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}"


def figure(value: float | None) -> str:
    """Format with three significant digits: ``0.203``, ``1.51``, ``12.3``, ``142``; a dash for None."""
    if value is None:
        return MISSING
    return number(value) if abs(value) >= 0.9995 else f"{value:.3f}"


def span(low: float, high: float) -> str:
    """Format an interval."""
    return f"{figure(low)}{DASH}{figure(high)}"


def percent(quantity: Quantity | None) -> str:
    """Format a share in %: one decimal."""
    return MISSING if quantity is None else f"{quantity.value:.1f}"


def with_interval(quantity: Quantity | None) -> str:
    """Format a share in % with its interval, if it has one: ``87.6 (84.2-91.5)``, with an en dash."""
    ends = interval(quantity)
    return percent(quantity) + (f" ({ends})" if ends else "")


def bounds(own: Interval, digits: int, scale: float = 1.0) -> str:
    """Format a value with its interval, each times ``scale``: ``0.83 (0.79-0.86)``, with an en dash."""
    value, low, high = (f"{scale * each:.{digits}f}" for each in (own.value, own.low, own.high))
    return f"{value} ({low}{DASH}{high})"


def share(own: Interval) -> str:
    """Format a share (0-1) in % with its interval: ``87.6 (84.2-91.5)``, with an en dash."""
    return bounds(own, 1, 100)


def interval(quantity: Quantity | None, digits: int = 1) -> str:
    """Format the interval's ends as ``84.2-91.5`` (with an en dash), empty where there is none."""
    if quantity is None or quantity.low is None or quantity.high is None:
        return ""
    separator = " to " if quantity.low < 0 else DASH
    return f"{quantity.low:.{digits}f}{separator}{quantity.high:.{digits}f}".replace("-", MINUS)


def half_width(quantity: Quantity | None) -> str:
    """Format the larger side of the interval as ``±3.4``, empty where there is none."""
    if quantity is None or quantity.low is None or quantity.high is None:
        return ""
    return f"±{max(quantity.value - quantity.low, quantity.high - quantity.value):.1f}"


def milliseconds(quantity: Quantity | None) -> str:
    """Format a latency without its unit."""
    return MISSING if quantity is None else number(quantity.value)


def megabytes(quantity: Quantity | None) -> str:
    """Format bytes in MB (10^6) without the unit."""
    return MISSING if quantity is None else number(quantity.value / 1e6)


def points(quantity: Quantity | None) -> str:
    """Format a loss of accuracy in points; a gain is negative."""
    return MISSING if quantity is None else f"{round(quantity.value, 1) + 0.0:.1f}"


def provenance(quantity: Quantity | None, device: str = "") -> str:
    """Format the provenance of a number: ``measured (host)``, ``published``."""
    if quantity is None:
        return ""
    suffix = f" ({device})" if device and quantity.provenance.value in ("measured", "predicted") else ""
    return f"{quantity.provenance.value}{suffix}"


def provenance_note(evaluation: Evaluation) -> str:
    """Format the provenance of accuracy and latency: ``published, measured (host)``."""
    accuracy = provenance(evaluation.accuracy)
    latency = provenance(evaluation.latency, evaluation.configuration.target.device)
    return ", ".join((accuracy or MISSING, latency or MISSING))


def name(evaluation: Evaluation) -> str:
    """Return the name of a configuration for people, without figures."""
    configuration = evaluation.configuration
    target = configuration.target
    device = "" if target.device == HOST else f"{target.device}, "
    return f"{configuration.card} {configuration.variant_name}, {device}{plural(target.threads, 'thread')}"


def finite(value: Any) -> Any:
    """Return ``value`` as strict JSON allows it: NaN and infinities become None, keys become text."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


def spreadsheet(value: object) -> object:
    """Return a CSV cell that no spreadsheet interprets as a formula."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return value


@dataclass(frozen=True)
class Term:
    """A term.

    Attributes:
        name: as reports write it.
        text: what it means, in a few sentences.
        page: where the documentation says more: a file in ``docs/`` and the heading in it.
        also: other names.
    """

    name: str
    text: str
    page: str
    also: tuple[str, ...] = ()


def terms() -> tuple[Term, ...]:
    """Return all terms by name."""
    import yaml

    text = files("advisor.reporting").joinpath("glossary.yaml").read_text(encoding="utf-8")
    return tuple(
        Term(name, entry["text"], entry["page"], tuple(entry.get("also", ())))
        for name, entry in yaml.safe_load(text).items()
    )


def term(name: str) -> Term:
    """Return the term with this name or other name; case, dashes and underscores do not matter.

    Raises:
        UsageError: there is none. The error names the nearest.
    """
    known = {_plain(each): found for found in terms() for each in (found.name, *found.also)}
    if _plain(name) not in known:
        raise UsageError(f"'{name}' is not explained{nearest(_plain(name), known)}", "advisor explain lists all terms")
    return known[_plain(name)]


def _plain(name: str) -> str:
    return name.casefold().replace("-", " ").replace("_", " ").strip()
