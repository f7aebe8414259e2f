"""Quantities as people write and read them, such as ``50ms``, and text that is safe to show.

The parsers of quantities are here (``parse_...``, :func:`size_bytes`, :func:`whole_number`,
:func:`channel_values`), the formats of figures (``show_...``), and what makes an untrusted text
safe for a terminal (:func:`plain`). Options with words of their own are parsed in ``_names.py``
and ``_limits.py``.

All rooms call these functions. The units and their :data:`SPELLINGS` stay: people write them in
options, request files and tables.
"""

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from advisor.core._errors import UsageError, nearest

MILLISECONDS: Mapping[str, float] = {"us": 1e-3, "ms": 1.0, "s": 1e3}
BYTES: Mapping[str, float] = {
    "B": 1.0,
    "kB": 1e3,
    "KB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "KiB": 2.0**10,
    "MiB": 2.0**20,
    "GiB": 2.0**30,
}
POINTS: Mapping[str, float] = {"pt": 1.0, "pts": 1.0}
SECONDS: Mapping[str, float] = {"s": 1.0, "min": 60.0, "h": 3600.0}
PERCENT: Mapping[str, float] = {"%": 1.0}
COUNTS: Mapping[str, float] = {"k": 1e3, "M": 1e6, "G": 1e9}

SPELLINGS: Mapping[str, str] = {
    "microsecond": "us",
    "\u03bcs": "us",  # without case, the micro sign is this Greek letter, too
    "millisecond": "ms",
    "msec": "ms",
    "second": "s",
    "sec": "s",
    "minute": "min",
    "m": "min",
    "hour": "h",
    "hr": "h",
    "byte": "b",
    "kilobyte": "kb",
    "megabyte": "mb",
    "gigabyte": "gb",
    "kibibyte": "kib",
    "mebibyte": "mib",
    "gibibyte": "gib",
    "point": "pt",
    "percent": "%",
}
"""The unit for each other spelling, without its plural.
Units are compared without case, so these have none.
"""

MOST = 1e15
"""Largest quantity in base units: a petabyte, or 30,000 years in milliseconds. Larger ones are
mistakes, and infinite or not in the calendar after a conversion.
"""

MOST_DECIMALS = 6
"""Decimals of a figure beside its limit: with more, the difference is one of rounding."""

MOST_WHOLE = 2**31 - 1
"""Largest whole number of an option: what the tables of a file hold."""

INPUT_STEP = 32
"""Pixels by which the inputs of networks on maps differ: their backbones halve a map five
times. It is no unit. Questions are checked by it, and reports round a side to it.
"""

_NUMBER = re.compile(
    r"^\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*([^\s\d]*)\s*$", re.IGNORECASE
)

_DURATION_PART = re.compile(r"\s*((?:\d+\.?\d*|\.\d+)\s*[^\s\d.]+)\s*")

_FRAME_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:fps|hz)", re.IGNORECASE)

_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
_JOINERS = "\u200c\u200d"
"""Invisible, but several scripts and emoji need them."""


def parse_quantity(
    text: str,
    units: Mapping[str, float],
    option: str,
    example: str,
    more_units: Sequence[str] = (),
) -> float:
    """Parse a positive number with its unit, such as ``50ms``;
    ``units`` has the factor of each in the base unit.

    A unit may be written as a word, and its case does not matter: ``50 milliseconds``, ``50 MS``.
    The hint of an error names ``more_units``, too.

    Raises UsageError: no number, no unit, an unknown unit,
    or a value that is not above zero or above :data:`MOST`.
    """
    match = _NUMBER.match(str(text))
    hint = f"write for example {option} {example}"
    if match is None:
        raise UsageError(f"{option}: '{text}' is not a number with a unit", hint)
    number = float(match.group(1))
    unit = match.group(2)
    names = f"units: {', '.join((*units, *more_units))}"
    if not unit:
        unit_of_example = example.lstrip("0123456789.")
        written = f"{match.group(1)}{unit_of_example}"
        # A share is often written without its unit as a part of one.
        if units is PERCENT and 0 < number <= 1:
            written = f"{100 * number:g}{unit_of_example}"
        raise UsageError(
            f"{option}: '{text}' has no unit", f"did you mean {option} {written}? {names}"
        )
    factor = _find_factor(unit, units)
    if factor is None:
        raise UsageError(
            f"{option}: '{text}' has the unknown unit '{unit}'{nearest(unit, units)}", names
        )
    if number <= 0:
        raise UsageError(f"{option}: '{text}' is not above zero", hint)
    if number * factor > MOST:
        raise UsageError(f"{option}: '{text}' is too large", hint)
    return number * factor


def _find_factor(unit: str, units: Mapping[str, float]) -> float | None:
    """Return the factor of a unit however it is spelt; None if it is none of ``units``."""
    if unit in units:
        return units[unit]
    factors = {name.casefold(): factor for name, factor in units.items()}
    word = unit.casefold()
    spellings = (word, SPELLINGS.get(word), SPELLINGS.get(word.removesuffix("s")))
    return next((factors[spelling] for spelling in spellings if spelling in factors), None)


def parse_milliseconds(text: str, option: str) -> float:
    """Parse a latency such as ``50ms`` or ``0.2s`` into milliseconds;
    ``30fps`` is the time of one of 30 frames.
    """
    rate = _FRAME_RATE.fullmatch(str(text).strip())
    if rate is not None and float(rate[1]) > 0:
        return 1000.0 / float(rate[1])
    return parse_quantity(text, MILLISECONDS, option, "50ms", ("fps",))


def size_bytes(text: str, option: str) -> int:
    """Parse a size such as ``5MB`` (10^6) or ``4MiB`` (2^20) into bytes."""
    return round(parse_quantity(text, BYTES, option, "5MB"))


def parse_points(text: str, option: str) -> float:
    """Parse a difference of accuracy such as ``1.5pt`` into percentage points."""
    return parse_quantity(text, POINTS, option, "1pt")


def parse_percent(text: str, option: str) -> float:
    """Parse a share such as ``90%`` into percent (0-100]."""
    value = parse_quantity(text, PERCENT, option, "90%")
    if value > 100:
        raise UsageError(f"{option}: '{text}' is above 100%", f"write for example {option} 90%")
    return value


def parse_share(text: str, option: str, ends: tuple[float, float], why: str) -> float:
    """Parse a percentage into a share (0-1) from the least to the largest one;
    ``why`` is the hint for another.
    """
    value = parse_percent(text, option) / 100
    least, most = ends
    if not least <= value <= most:
        raise UsageError(
            f"{option}: '{text}' is not between {100 * least:g}% and {100 * most:g}%", why
        )
    return value


def parse_seconds(text: str, option: str) -> float:
    """Parse a duration such as ``10min``, or one of several parts such as ``1h 30min``,
    into seconds.

    Raises UsageError: no number with its unit.
    """
    parts = _DURATION_PART.findall(str(text))
    # A number such as 1e2 looks like two parts, too.
    if _NUMBER.match(str(text)) or _DURATION_PART.sub("", str(text)):
        parts = [text]
    return sum(parse_quantity(part, SECONDS, option, "10min") for part in parts)


def whole_number(text: str, most: int = MOST_WHOLE) -> int | None:
    """Parse a whole number from 0 to ``most``; None for another text.

    Python converts at most 4,300 digits.
    """
    digits = text.strip()
    if not digits.isdecimal() or len(digits) > len(str(most)):
        return None
    number = int(digits)
    return number if number <= most else None


def channel_values(text: str, option: str) -> tuple[float, ...]:
    """Parse a value for all channels, or one for each of three:
    ``127.5`` or ``123.7,116.3,103.5``.
    """
    try:
        values = tuple(map(float, text.split(",")))
    except ValueError:
        values = ()
    if len(values) not in (1, 3) or not all(map(math.isfinite, values)):
        raise UsageError(
            f"{option}: '{text}' is not one number or three", f"write for example {option} 127.5"
        )
    return values


def plural(count: int, one: str, many: str = "") -> str:
    """Format a count with its noun: ``1 image``, ``2 images``."""
    if count == 1:
        return f"1 {one}"
    return f"{count} {many or f'{one}s'}"


def listed(names: Sequence[str], most: int = 5) -> str:
    """Join names by commas; of more than ``most``, only the first are named:
    ``a, b, c, d, e and 7 more``.
    """
    more = ""
    if len(names) > most:
        more = f" and {len(names) - most} more"
    return ", ".join(names[:most]) + more


def show_bytes(size: float) -> str:
    """Format a size for people: ``512 B``, ``3.9 MB`` (10^6)."""
    number, unit = _choose_unit(size)
    return f"{size:.0f} B" if unit == "B" else f"{number:.1f} {unit}"


def _choose_unit(size: float) -> tuple[float, str]:
    """Return a size in bytes as a number of the largest unit in which it is at least 1."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return size / factor, unit
    return size, "B"


def round_down(value: float) -> float:
    """Round a positive number down to three significant digits.

    What is said of all numbers below ``value`` is then true of all below the result.
    """
    return _round_to_three_digits(value, ROUND_FLOOR)


def round_up(value: float) -> float:
    """Round a positive number up to three significant digits, see :func:`round_down`."""
    return _round_to_three_digits(value, ROUND_CEILING)


def _round_to_three_digits(value: float, rounding: str) -> float:
    # Decimal, because a multiple of 0.0001 may be above the number in binary.
    exact = Decimal(repr(float(value)))
    unit = Decimal(1).scaleb(exact.adjusted() - 2)
    return float(exact.quantize(unit, rounding=rounding))


def show_size_limit(size: float) -> str:
    """Format a limit of size with three significant digits: ``512 B``, ``3.98 MB``."""
    number, unit = _choose_unit(size)
    return f"{number:.3g} {unit}"


def show_ms_interval(latency_ms: float, low_ms: float | None, high_ms: float | None) -> str:
    """Format a latency with its interval, if that is known: ``11.8 ms [10.2-13.9]``."""
    if low_ms is None or high_ms is None:
        return show_ms(latency_ms)
    ends = "-".join(show_ms(end).removesuffix(" ms") for end in (low_ms, high_ms))
    return f"{show_ms(latency_ms)} [{ends}]"


def show_seconds(duration: float) -> str:
    """Format a duration for people: ``42 s``, ``3 min 20 s``, ``2 h 05 min``."""
    whole = round(duration)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def write_seconds(duration: float) -> str:
    """Return a duration as an option takes it, without spaces: ``4min24s``;
    of an hour or more, minutes rounded up.
    """
    whole = duration
    if duration >= 3600:
        whole = 60 * math.ceil(duration / 60)
    return show_seconds(whole).replace(" ", "")


def show_time(moment: datetime) -> str:
    """Format a time for people in their time zone:
    ``2026-01-31 13:00:00 CET``, or with the offset to UTC.
    """
    local = moment.astimezone()
    zone = local.tzname() or ""
    # Many time zones have no name but the offset.
    if not zone.isalpha():
        zone = f"UTC{local.isoformat()[19:]}"
    return f"{local:%Y-%m-%d %H:%M:%S} {zone}"


def show_ms(latency_ms: float) -> str:
    """Format a latency for people with three significant digits:
    ``0.85 ms``, ``12.3 ms``, ``142 ms``.
    """
    if latency_ms >= 99.95:
        return f"{latency_ms:.0f} ms"
    if 0 < latency_ms < 0.0095:
        return f"{latency_ms:.2g} ms"
    if latency_ms >= 9.995:
        return f"{latency_ms:.1f} ms"
    return f"{latency_ms:.2f} ms"


def show_figure(figure: str, value: float) -> str:
    """Format a value of a figure (``latency``, ``latency_p90``, ``size``, ``memory``, ``drop``,
    ...) with its unit.
    """
    if figure.startswith("latency"):
        return show_ms(value)
    if figure in ("size", "memory"):
        return show_bytes(value)
    if figure.endswith("drop"):
        return f"{value:.1f} points"
    return f"{value:.1f} %"


def show_against(figure: str, limit: float, *values: float) -> tuple[str, ...]:
    """Format values of a figure, and last its limit, with the digits that tell them apart:
    ``50.04 ms``, ``50.00 ms``.
    """
    texts = tuple(show_figure(figure, value) for value in (*values, limit))
    shown = texts[-1]
    if shown not in texts[:-1]:
        return texts
    allowed, unit = shown.split(" ", 1)
    scale = BYTES.get(unit, 1.0)
    scaled = tuple(value / scale for value in (*values, limit))
    decimals = decimals_apart(len(allowed.partition(".")[2]), limit / scale, *scaled)
    return tuple(f"{value:.{decimals}f} {unit}" for value in scaled)


def decimals_apart(decimals: int, limit: float, *values: float) -> int:
    """Return the decimals, at least so many, with which no other value reads like the limit."""
    others = [value for value in values if value != limit]
    while decimals < MOST_DECIMALS:
        shown = f"{limit:.{decimals}f}"
        if shown not in [f"{value:.{decimals}f}" for value in others]:
            break
        decimals += 1
    return decimals


def plain(text: object) -> str:
    """Return ``text`` on one line without characters that steer a terminal or reorder the line.

    Names of classes, files and cards are untrusted: an escape sequence in one must not reach the
    terminal, nor a bidirectional override the words around it.
    """
    one_line = " ".join(str(text).split())
    return "".join("\ufffd" if _is_hidden(char) else char for char in one_line)


def utf8(text: str) -> str:
    """Return ``text`` with what no file in UTF-8 can have as escapes:
    bytes of a name in another encoding.
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def visible(text: str) -> str:
    """Return ``text`` with characters that steer a terminal or reorder a line written as escapes;
    lines stay lines.
    """
    shown = []
    for char in text:
        is_escaped = char != "\n" and _is_hidden(char)
        shown_char = char.encode("unicode_escape").decode("ascii") if is_escaped else char
        shown.append(shown_char)
    return "".join(shown)


def _is_hidden(char: str) -> bool:
    return char not in _JOINERS and unicodedata.category(char) in _HIDDEN
