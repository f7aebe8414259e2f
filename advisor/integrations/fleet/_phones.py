"""Read a fleet: its phones with their shares, each with what is known of its processor.

The check of a question and the answer call :func:`read_fleet` with the text of a table.
:data:`COLUMNS` are the columns of users' tables, and what :attr:`Phone.found` says is written to
``recommendation.json``: both stay.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from advisor.core import Problems, UsageError, nearest, units
from advisor.devices import (
    TFLITE_RUNTIMES,
    Cluster,
    DeviceProfile,
    DeviceTarget,
    Profiles,
    Soc,
    clusters_of,
    find_phone,
    find_shipped_fleets,
    load_known_devices,
    read_socs as shipped_socs,
    target_vector,
)
from advisor.engine import TargetDevice
from advisor.integrations.fleet.selector import plain

COLUMNS = ("device", "soc", "share", "os", "runtime", "cores", "memory")
"""Columns of a fleet: ``device`` or ``soc`` and ``share`` are needed."""

THREADS = 4
"""CPU threads with which an app runs a file, or as many as the phone has cores."""

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


@cache
def index_socs() -> Mapping[str, Soc]:
    """Return the shipped systems on chip by each of their names, see :func:`.selector.plain`."""
    socs = {}
    for soc in shipped_socs():
        for name in (soc.name, *soc.names):
            socs[plain(name)] = soc
    return socs


def read_fleet(text: str, folders: Sequence[Path] = ()) -> Fleet:
    """Return the fleet of a table; ``folders`` hold further device profiles.

    Shares that do not add up to 1 or to 100 are normalised, rows of one phone are added up, and
    both are noted. An unknown phone without cores counts as unknown.

    Raises:
        UsageError: a missing column, a row that cannot be read, or no known phone.
    """
    first, *_ = text.splitlines() or [""]
    title = "your fleet"
    if first.startswith("#"):
        title = first.lstrip("# ").strip()
    rows = _read_rows(text)
    problems = Problems()
    profiles = load_known_devices(folders)
    _check_columns(rows)
    rows_by_key: dict[str, tuple[dict[str, str], float]] = {}
    notes: list[str] = []
    for number, row in enumerate(rows, start=1):
        name = row.get("device") or row.get("soc") or ""
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
        name = row.get("device") or row.get("soc") or ""
        device, how_found = _find_device(name, row, profiles, problems)
        phones.append(Phone(name, share / total, device, how_found, row.get("os", "")))
    problems.raise_any()
    fleet = Fleet(title, tuple(phones), tuple(dict.fromkeys(notes)))
    if not fleet.known:
        first_names = ", ".join(phone.name for phone in phones[:5])
        suggestion = nearest(phones[0].name, _list_names(profiles))
        raise UsageError(
            f"--fleet: no phone of it is known: {first_names}{suggestion}",
            "advisor devices list shows the devices; or add a column cores: 2 x Cortex-A76 @ 2200"
            " + 6 x Cortex-A55",
        )
    return fleet


def _read_rows(text: str) -> list[dict[str, str]]:
    """Return the rows of a table; lines that begin with ``#`` are comments.

    Cells are separated by the most frequent of comma, semicolon and tab in the header. UsageError:
    a column is there twice, or a row has more cells than the header.
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
    repeated = []
    for name in names:
        if names.count(name) > 1:
            repeated.append(name)
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
    try:
        share = float(text.rstrip("% ").replace(",", "."))
    except ValueError:
        share = math.nan
    if not name or not 0 <= share <= MOST_USERS:
        what = f"'{text}' is no share" if name else "names no device and no soc"
        raise UsageError(f"--fleet, row {number}: {what}", "write for example Helio G99,12.5")
    return share


def _list_names(profiles: Profiles) -> Iterator[str]:
    yield from profiles
    for soc in index_socs().values():
        yield soc.name


def _find_device(
    name: str, row: Mapping[str, str], profiles: Profiles, problems: Problems
) -> tuple[TargetDevice | None, str]:
    """Return what predictions are made for, and how it was found;
    None and the reason if it is unknown.
    """
    try:
        memory = None
        if row.get("memory"):
            memory = units.size_bytes(row["memory"], "memory")
        cores = clusters_of(row["cores"]) if row.get("cores") else ()
        profile, how_found, target = _find_profile(name, cores, profiles)
        if profile is None:
            return None, how_found
        # Precedence: column "runtime", target behind the colon of the name, CPU.
        if row.get("runtime"):
            target = profile.target(row["runtime"])
        elif target is None:
            target = cpu_target(profile)
    except UsageError as error:
        problems.add(UsageError(f"--fleet, '{name}': {error.message}", error.hint))
        return None, ""
    if target is None:
        return None, "its cores are not known"
    # A target that was made for this phone is its only one,
    # and predictions look it up in the profile.
    if target not in profile.targets:
        profile = replace(profile, targets=(target,), default_target=target.name)
    if memory:
        profile = replace(profile, memory_bytes=memory)
    return TargetDevice(name, profile, target), how_found


def _find_profile(
    name: str, cores: tuple[Cluster, ...], profiles: Profiles
) -> tuple[DeviceProfile | None, str, DeviceTarget | None]:
    """Return the profile of a phone, how it was found, and the target that its name asks for.

    The profile and the target are None where there is none.
    """
    # A name may end with a target, such as pixel-6:litert-gpu.
    device, _, target = name.rpartition(":")
    titles = {profile.title.casefold(): profile for profile in profiles.values()}
    profile = profiles.get(device or name) or titles.get(name.casefold())
    if profile is not None:
        return profile, "profile", profile.target(target) if device else None
    # Phones come before SoCs: iPhone 13 is a phone,
    # and hw.machine of phones with an A14 begins with iPhone13.
    phone = None if cores else find_phone(device or name, profiles)
    if phone is not None:
        return phone, _how_known(phone, profiles), phone.target(target) if device else None
    soc = index_socs().get(plain(name))
    phones_by_soc = {
        plain(profile.soc): profile for profile in profiles.values() if profile.kind == "phone"
    }
    same_soc = phones_by_soc.get(plain(name))
    if cores or soc is not None:
        soc_cores = soc.cores if soc else ()
        soc_name = same_soc.soc if same_soc else name
        phone = DeviceProfile(
            plain(name), name, "phone", soc_name, (), "", isa="armv8.2-a", cores=cores or soc_cores
        )
        near, times = nearest_device(phone, profiles)
        if not near:
            return phone, "soc", None
        known_by = "cores" if cores else "soc"
        return phone, f"{known_by}, {times:.2f} times from {near}", None
    if same_soc is not None:
        return same_soc, "profile", None
    return None, f"unknown{nearest(name, _list_names(profiles))}", None


def _how_known(profile: DeviceProfile, profiles: Profiles) -> str:
    """Return how a phone of the table is known:
    by its profile, or by its cores with the nearest measured CPU.
    """
    if not profile.predicted_from:
        return "profile"
    near, times = nearest_device(profile, profiles)
    if near:
        return f"phone, {times:.2f} times from {near}"
    return "phone"


def cpu_target(profile: DeviceProfile) -> DeviceTarget | None:
    """Return the target of LiteRT on a phone's CPU, as apps run it;
    None if its cores are not known.
    """
    count = min(THREADS, sum(cluster.count for cluster in profile.cores))
    tflite_targets = [target for target in profile.targets if target.runtime in TFLITE_RUNTIMES]
    cpu_targets = [target for target in tflite_targets if target.accelerator == "cpu"]
    if not profile.cores:
        return max(cpu_targets, key=lambda target: target.threads, default=None)
    for target in cpu_targets:
        if target.threads == count:
            return target
    name = f"litert-cpu-x{count}"
    return DeviceTarget(
        name, "tflite", "cpu", count, "", ("float32", "float16", "int8"), kernels="xnnpack"
    )


def nearest_device(phone: DeviceProfile, profiles: Profiles) -> tuple[str, float]:
    """Return the device whose CPU is nearest,
    and the ratio of their multiply-accumulates a second (1 or more).

    Empty and 1 if the cores of no other phone are known.
    """
    phone_speed = compute_speed(phone)
    if not phone_speed:
        return "", 1.0
    log_ratios = dict[str, float]()
    for profile in profiles.values():
        if profile.kind != "phone" or not profile.cores:
            continue
        speed = compute_speed(profile)
        if speed:
            log_ratios[profile.name] = abs(math.log(speed / phone_speed))
    if not log_ratios:
        return "", 1.0
    name = min(log_ratios, key=log_ratios.__getitem__)
    return name, math.exp(log_ratios[name])


def compute_speed(profile: DeviceProfile) -> float:
    """Return 10^9 float32 multiply-accumulates a second of the cores that run, in theory;
    0 if they are not known.
    """
    target = cpu_target(profile)
    vector = target_vector(profile, target, "float32") if target else None
    return math.exp(vector[0]) if vector else 0.0
