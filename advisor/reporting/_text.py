"""Figures, untrusted names and terms of the reports as text.

All forms of a report format their figures here, so that the same figure looks the same everywhere.
``explain`` looks up the terms, which are in ``glossary.yaml``.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from advisor.core import (
    HOST,
    Evaluation,
    Interval,
    Quantity,
    UsageError,
    nearest,
    plain as plain,
    plural as plural,
)
from advisor.store import shipped_folder

DASH = "\u2013"
MINUS = "\u2212"
MISSING = DASH
CONTENDED = "(contended machine)"
"""The end of the source of a latency that was measured while other programs used the machine."""

_NO_PART_OF_A_MODEL = re.compile(
    r"\((?:R|TM)\)|\bCPU\b|(?:\d+-Core )?\bProcessor\b|@.*", re.IGNORECASE
)
"""Additions of makers to the model of a processor: signs, the kind of part, and a frequency."""

COMMAND = "advisor "
"""The first word of a command to type."""

FIGURE_WITH_UNIT = re.compile(r"(?<=\d) (?=(?:%|ms|s|min|h|kB|MB|GB|GiB|points?)(?!\w))")
"""The space between a figure and its unit."""

NO_BREAK = "\u00a0"

_ENTITIES = str.maketrans({"<": "&lt;", ">": "&gt;", "&": "&amp;"})
_MARKDOWN = re.compile(r"([\\`*_{}\[\]#!|~$])")
"""Signs of HTML with what stands for them, and signs of Markdown."""

OPTION = re.compile(r"(?<![^\s(])--[a-z][a-z0-9-]*")
"""The name of an option in a sentence or a command."""

NAME_LENGTH = 18  # Characters of a shortened name: one line below a photograph of the first screen


def inner(part: str, escape: Callable[[str], str] = plain) -> str:
    """Return a piece of a sentence escaped, with the spaces at its ends."""
    before = len(part) - len(part.lstrip(" "))
    after = len(part.rstrip(" "))
    return f"{part[:before]}{escape(part[before:after])}{part[max(before, after) :]}"


def escape_markdown(value: object) -> str:
    """Return a text on one line with the signs of Markdown and HTML escaped;
    an ``@`` mentions nobody.
    """
    return _MARKDOWN.sub(r"\\\1", plain(value)).translate(_ENTITIES).replace("@", "@\u200b")


def keep_units(value: object) -> object:
    """Return a value that a template writes, with figures that stay beside their units.

    A command stays as it is, because a shell does not take the space for one.
    """
    # What a template made is of another type, and was kept together before.
    if type(value) is not str or value.startswith(COMMAND):
        return value
    return FIGURE_WITH_UNIT.sub(NO_BREAK, value)


def number(value: float) -> str:
    """Format with three significant digits, at most two decimals: ``0.85``, ``12.3``, ``142``."""
    # Not 100: what rounds up to 100 needs no decimal.
    if abs(value) >= 99.95:
        # Only five digits and more are hard to read without a space.
        separator = "\u202f" if abs(value) >= 9999.5 else ""
        return f"{value:,.0f}".replace(",", separator)
    if abs(value) >= 9.995:
        return f"{value:.1f}"
    return f"{value:.2f}"


def figure(value: float | None) -> str:
    """Format with three significant digits: ``0.203``, ``1.51``, ``12.3``, ``142``;
    a dash for None.
    """
    if value is None:
        return MISSING
    if abs(value) >= 0.9995:
        return number(value)
    return f"{value:.3f}"


def span(low: float, high: float) -> str:
    """Format an interval."""
    return f"{figure(low)}{DASH}{figure(high)}"


def percent(quantity: Quantity | None) -> str:
    """Format a share in %: one decimal."""
    if quantity is None:
        return MISSING
    return f"{quantity.value:.1f}"


def show_holdout_images(evaluation: Evaluation) -> str:
    """Return on how many images of the hold-out a file was judged: ``101 images of the hold-out``,
    or ``40 of 101 images of the hold-out`` with the reason for the others.
    """
    judged = evaluation.holdout_accuracy
    part = evaluation.holdout_part
    if part:
        return f"{part.shown} of the hold-out ({part.reason})"
    return f"{judged.n if judged else 0} images of the hold-out"


def with_interval(quantity: Quantity | None) -> str:
    """Format a share in %, with its interval if it has one: ``87.6 (84.2-91.5)``, an en dash."""
    ends = interval(quantity)
    if not ends:
        return percent(quantity)
    return f"{percent(quantity)} ({ends})"


def bounds(interval: Interval, digits: int, scale: float = 1.0) -> str:
    """Format a value with its interval, each times ``scale``:
    ``0.83 (0.79-0.86)``, with an en dash.
    """
    value, low, high = (
        f"{scale * end:.{digits}f}" for end in (interval.value, interval.low, interval.high)
    )
    return f"{value} ({low}{DASH}{high})"


def share(interval: Interval) -> str:
    """Format a share (0-1) in % with its interval: ``87.6 (84.2-91.5)``, with an en dash."""
    return bounds(interval, 1, 100)


def interval(quantity: Quantity | None, digits: int = 1) -> str:
    """Format the interval's ends as ``84.2-91.5`` (with an en dash), empty where there is none.

    Drawing again what was equal on each image shows no spread, which is no certainty.
    """
    if quantity is None or quantity.low is None or quantity.high is None:
        return ""
    if quantity.low == quantity.high:
        return ""
    # A dash before a minus is hard to read.
    separator = " to " if quantity.low < 0 else DASH
    return f"{quantity.low:.{digits}f}{separator}{quantity.high:.{digits}f}".replace("-", MINUS)


def confidence(quantity: Quantity | None, before: str = "", after: str = "") -> str:
    """Format the interval as ``95 %: 84.2-91.5`` between two texts, empty where there is none."""
    ends = interval(quantity)
    if ends:
        return f"{before}95 %: {ends}{after}"
    return ""


def milliseconds(quantity: Quantity | None) -> str:
    """Format a latency without its unit."""
    return MISSING if quantity is None else number(quantity.value)


def megabytes(quantity: Quantity | None) -> str:
    """Format bytes in MB (10^6) without the unit."""
    if quantity is None:
        return MISSING
    return number(quantity.value / 1e6)


def points(quantity: Quantity | None) -> str:
    """Format a loss of accuracy in points; a gain is negative."""
    # Adding zero makes 0.0 of -0.0.
    if quantity is None:
        return MISSING
    return f"{round(quantity.value, 1) + 0.0:.1f}"


def as_gain(loss: Quantity) -> Quantity:
    """Return what was gained in place of lost, with its interval."""
    # A loss of 0.0 is no gain of -0.0.
    low = None
    if loss.high is not None:
        low = 0.0 - loss.high
    high = None
    if loss.low is not None:
        high = 0.0 - loss.low
    return replace(loss, value=-loss.value, low=low, high=high)


def name_place(device: str) -> str:
    """Return a device in words: the profile ``host`` is this machine."""
    return "this machine" if device == HOST else device


def describe_machine(manifest: Mapping[str, Any]) -> str:
    """Return the machine that searched in words: ``Intel Xeon, 2 cores``; empty if not known."""
    host = manifest.get("host") or {}
    processor = _NO_PART_OF_A_MODEL.sub("", str(host.get("cpu") or ""))
    cores = ""
    if host.get("cores"):
        cores = plural(int(host["cores"]), "core")
    return ", ".join(filter(None, (" ".join(processor.split()), cores)))


def provenance(quantity: Quantity | None, device: str = "") -> str:
    """Format the provenance of a number, and where it holds:
    ``measured on this machine``, ``published``.
    """
    if quantity is None:
        return ""
    is_local = quantity.provenance.value in ("measured", "predicted")
    if device and is_local:
        return f"{quantity.provenance.value} on {name_place(device)}"
    return quantity.provenance.value


def name_clock(latency: Quantity) -> str:
    """Return which time stands for the latency on a busy machine,
    where the median would be that of the others.
    """
    if not latency.source.endswith(CONTENDED):
        return ""
    return latency.source.rpartition(", ")[2].removesuffix(CONTENDED).strip()


def file(evaluation: Evaluation) -> str:
    """Return the card and the recipes of a file."""
    return f"{evaluation.configuration.card} {evaluation.configuration.variant_name}"


def name(evaluation: Evaluation) -> str:
    """Return the name of a configuration for people, without figures."""
    target = evaluation.configuration.target
    device = "" if target.device == HOST else f"{target.device}, "
    return f"{file(evaluation)}, {device}{plural(target.threads, 'thread')}"


def finite(value: Any) -> Any:
    """Return ``value`` as strict JSON allows it:
    NaN and infinities become None, keys become text.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return list(map(finite, value))
    return value


def shorten_name(words: str) -> str:
    """Return a name for a narrow place:
    its first two words, or the first, or the first characters of that.
    """
    first = words.split()[:2]
    short = " ".join(first)
    if len(short) > NAME_LENGTH:
        short = first[0][:NAME_LENGTH]
    if len(words) <= len(short):
        return words
    return f"{short}…"


def first_sentence(words: str) -> str:
    """Return the first sentence of a text, with its full stop."""
    first, stop, _ = words.partition(". ")
    return f"{first}." if stop else words


def spreadsheet(value: object) -> object:
    """Return a CSV cell that no spreadsheet interprets as a formula."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return value


@dataclass(frozen=True)
class Term:
    """A term of the reports: other names,
    and the heading in a file of ``docs/`` where the documentation says more.
    """

    name: str
    text: str
    page: str
    also: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The place in the documentation that says more:
        a file of a checkout, or the name of the page and its part.
        """
        page, _, heading = self.page.partition("#")
        if (shipped_folder("docs") / page).is_file():
            return f"docs/{self.page}"
        return f"the documentation, {heading.replace('-', ' ') or 'the whole page'} ({page})"


def terms() -> tuple[Term, ...]:
    """Return all terms by name."""
    import yaml

    entries = yaml.safe_load(
        files("advisor.reporting").joinpath("glossary.yaml").read_text(encoding="utf-8")
    )
    described = []
    for name, entry in entries.items():
        described.append(Term(name, entry["text"], entry["page"], tuple(entry.get("also", ()))))
    return tuple(described)


def term(name: str) -> Term:
    """Return the term with this name or other name, or refuse it;
    case, dashes and underscores do not matter.
    """
    spaces = str.maketrans("-_", "  ")
    by_alias = {}
    for entry in terms():
        for alias in (entry.name, *entry.also):
            by_alias[alias.casefold().translate(spaces)] = entry
    wanted = name.casefold().translate(spaces).strip()
    if wanted not in by_alias:
        raise UsageError(
            f"'{name}' is not explained{nearest(wanted, by_alias)}",
            "advisor explain lists all terms",
        )
    return by_alias[wanted]


def whole_percent(share: float) -> str:
    """Format a share that is known: ``30 %``, ``under 1 %``."""
    if 0 < share < 0.005:
        return "under 1 %"
    return f"{100 * share:.0f} %"
