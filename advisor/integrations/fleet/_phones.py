"""Read a fleet: its phones with their shares, each with what is known of its processor.

The check of a question and the answer call :func:`read_fleet` with the text of a table.
:data:`COLUMNS` are the columns of users' tables, and what :attr:`Phone.found` says is written to
``recommendation.json``: both stay.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from advisor.core import Problems, UsageError, nearest
from advisor.devices import (
    find_shipped_fleets,
    load_known_devices,
)
from advisor.engine import TargetDevice
from advisor.integrations.fleet._phone_devices import find_device, list_names

COLUMNS = ("device", "soc", "share", "os", "runtime", "cores", "memory")
"""Columns of a fleet: ``device`` or ``soc`` and ``share`` are needed."""


MOST_PHONES = 2000
MOST_USERS = 1e10  # largest share, which may be a number of users

_DELIMITERS = ",;\t"


@dataclass(frozen=True)
class Phone:
    """A row of a fleet.

    Attributes:
        name: device or SoC, as the fleet writes it.
        share: share of the users, 0 to 1.
        device: what predictions are made for; None of an unknown phone.
        found: how it was found: ``profile``, ``soc`` or ``cores``; why it is unknown, if it is.
        os: its operating system, empty if not stated.
    """

    name: str
    share: float
    device: TargetDevice | None
    found: str
    os: str = ""


@dataclass(frozen=True)
class Fleet:
    """The phones that a team ships to; ``notes`` say what was read otherwise than written."""

    title: str
    phones: tuple[Phone, ...]
    notes: tuple[str, ...] = ()

    @property
    def known(self) -> tuple[Phone, ...]:
        """Phones for which files can be chosen."""
        return tuple(phone for phone in self.phones if phone.device is not None)

    @property
    def unknown_share(self) -> float:
        """Share of the users whose phone is not known, 0 to 1."""
        return sum(phone.share for phone in self.phones if phone.device is None)


def read_fleet(text: str, folders: Sequence[Path] = ()) -> Fleet:
    """Return the fleet of a table; ``folders`` hold further device profiles.

    Shares that do not add up to 1 or to 100 are normalised, rows of one phone are added up, and
    both are noted. An unknown phone without cores counts as unknown.

    Raises:
        UsageError: a missing column, a row that cannot be read, or no known phone.
    """
    rows = _read_rows(text)
    _check_columns(rows)
    problems = Problems()
    profiles = load_known_devices(folders)
    notes: list[str] = []
    rows_by_key = _add_up_rows(rows, problems, notes)
    problems.raise_any()
    total = sum(share for _, share in rows_by_key.values())
    if not total > 0:
        raise UsageError(
            "--fleet: the shares add up to 0",
            "give each row the share of your users, such as 12.5",
        )
    # Shares may be fractions or percent. Half a percent is rounding, more needs a note.
    rounding = 0.5 if total > 50 else 0.005
    if min(abs(total - 1), abs(total - 100)) > rounding:
        notes.append(f"the shares add up to {total:.4g}, so they are divided by this sum")
    phones = list[Phone]()
    for row, share in rows_by_key.values():
        name = _name_of(row)
        device, how_found = find_device(name, row, profiles, problems)
        phones.append(Phone(name, share / total, device, how_found, row.get("os", "")))
    problems.raise_any()
    fleet = Fleet(_read_title(text), tuple(phones), tuple(dict.fromkeys(notes)))
    if not fleet.known:
        first_names = ", ".join(phone.name for phone in phones[:5])
        suggestion = nearest(phones[0].name, list_names(profiles))
        raise UsageError(
            f"--fleet: no phone of it is known: {first_names}{suggestion}",
            "advisor devices list shows the devices; or add a column cores: 2 x Cortex-A76 @ 2200"
            " + 6 x Cortex-A55",
        )
    return fleet


def _read_title(text: str) -> str:
    """Return the title of a table: its first line, if that is a comment."""
    first, *_ = text.splitlines() or [""]
    return first.lstrip("# ").strip() if first.startswith("#") else "your fleet"


def _name_of(row: Mapping[str, str]) -> str:
    return row.get("device") or row.get("soc") or ""


def _add_up_rows(
    rows: Sequence[dict[str, str]], problems: Problems, notes: list[str]
) -> dict[str, tuple[dict[str, str], float]]:
    """Return one row for each phone and runtime, with its share of the users.

    Adds what cannot be read to ``problems``, and phones with several rows to ``notes``.
    """
    rows_by_key: dict[str, tuple[dict[str, str], float]] = {}
    for number, row in enumerate(rows, start=1):
        name = _name_of(row)
        try:
            share = _parse_share(row.get("share", ""), name, number)
        except UsageError as error:
            problems.add(error)
            continue
        key = f"{name.casefold()} {row.get('runtime', '')}"
        if key in rows_by_key:
            notes.append(f"'{name}' has several rows; their shares are added up")
            share += rows_by_key[key][1]
        rows_by_key[key] = row, share
    return rows_by_key


def _read_rows(text: str) -> list[dict[str, str]]:
    """Return the rows of a table; lines that begin with ``#`` are comments.

    Cells are separated by the most frequent of comma, semicolon and tab in the header.

    Raises:
        UsageError: a column is there twice, or a row has more cells than the header.
    """
    # Excel begins a CSV file in UTF-8 with a byte order mark,
    # which would become a part of the first column's name.
    lines = []
    for line in text.removeprefix("\ufeff").splitlines():
        if line.strip() and not line.startswith("#"):
            lines.append(line)
    if not lines:
        return []
    delimiter = max(_DELIMITERS, key=lines[0].count)
    try:
        header, *cells = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
    except csv.Error as error:
        raise UsageError(
            f"--fleet: the table cannot be read ({error})", "write for example Helio G99,12.5"
        ) from None
    names = [name.strip().casefold() for name in header]
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise UsageError(
            f"--fleet: the column '{repeated[0]}' is there twice", "leave one of them out"
        )
    rows = []
    for number, row in enumerate(cells, start=1):
        if len(row) > len(names):
            raise UsageError(
                f"--fleet, row {number}: it has {len(row)} cells, and there are {len(names)}"
                " columns",
                "write shares with a point (12.5), or separate the cells by semicolons",
            )
        values = [cell.strip() for cell in row]
        values += [""] * (len(names) - len(row))
        rows.append(dict(zip(names, values, strict=True)))
    return rows


def _check_columns(rows: Sequence[Mapping[str, str]]) -> None:
    """Refuse a table that is empty, too long, or has other columns than :data:`COLUMNS`."""
    hint = (
        f"columns: {', '.join(COLUMNS)}; device or soc, and share, are needed. Shipped:"
        f" {_list_shipped()}"
    )
    if not rows:
        raise UsageError("--fleet: the table has no row", hint)
    if len(rows) > MOST_PHONES:
        raise UsageError(
            f"--fleet: the table has {len(rows)} rows, at most {MOST_PHONES} are read",
            "add rows up",
        )
    for name in rows[0]:
        if name not in COLUMNS:
            raise UsageError(f"--fleet: unknown column '{name}'{nearest(name, COLUMNS)}", hint)
    if "share" not in rows[0] or not {"device", "soc"} & set(rows[0]):
        raise UsageError(f"--fleet: the table has the columns {', '.join(rows[0])}", hint)


def _list_shipped() -> str:
    return ", ".join(path.stem for path in find_shipped_fleets())


def _parse_share(text: str, name: str, number: int) -> float:
    """Return the share of a row; UsageError if it is none, or the row names no phone."""
    try:
        share = float(text.rstrip("% ").replace(",", "."))
    except ValueError:
        share = math.nan
    if not name or not 0 <= share <= MOST_USERS:
        what = f"'{text}' is no share" if name else "names no device and no soc"
        raise UsageError(f"--fleet, row {number}: {what}", "write for example Helio G99,12.5")
    return share
