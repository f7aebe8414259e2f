"""Verify the files of a fleet on a connected device: test vectors, and the time of each file.

``advisor verify`` calls :func:`verify_bundle`. It sends ``on_device.py``, ``selector.py`` and
``check.py`` to the device, as each of them is, and reads the document that they print.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from advisor.core import StageError, UsageError, units
from advisor.devices import (
    ConnectionSettings,
    MeasurementJob,
    SshConnection,
    load_known_devices,
    lock_device,
    read_document,
)
from advisor.integrations.fleet._tiers import DOCUMENT, FOLDER
from advisor.integrations.fleet.selector import TierSelector
from advisor.reporting import check
from advisor.store import read_json, sha256_file

TIMEOUT_S = 600
"""Seconds for the test vectors of all files."""


@dataclass(frozen=True)
class VerifiedTier:
    """A file on the device; ``passed`` is None where the connection runs no test vectors."""

    file: str
    passed: bool | None
    milliseconds: float
    meets_budget: bool


@dataclass(frozen=True)
class VerifiedFiles:
    """The files of a bundle on a device, and the tier that the selector chooses there."""

    device: str
    tiers: tuple[VerifiedTier, ...]
    tier: int | None
    budget_ms: float

    @property
    def good(self) -> bool:
        """True if no file computes something else, and the chosen one meets the budget."""
        chosen = self.tier is not None and self.tiers[self.tier].meets_budget
        return chosen and all(file.passed is not False for file in self.tiers)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The result in words."""
        results = {
            True: "passes the test vectors",
            False: "computes something else",
            None: "its vectors were not run",
        }
        sentences = list[str]()
        for tier in self.tiers:
            time, budget = units.show_against("latency", self.budget_ms, tier.milliseconds)
            late = "" if tier.meets_budget else f"; does not meet {budget}"
            sentences.append(f"{tier.file}: {time}, {results[tier.passed]}{late}")
        file = "no file"
        if self.tier is not None:
            file = self.tiers[self.tier].file
        return (*sentences, f"On {self.device} the selector chooses {file}.")

    def to_json(self) -> dict[str, object]:
        """Return the result as plain JSON values."""
        return {"schema_version": 1, **asdict(self), "good": self.good}


def verify_bundle(device: str, bundle: Path, settings: ConnectionSettings | None) -> VerifiedFiles:
    """Run the test vectors of a bundle over ssh, and time its files over ssh or adb.

    Raises:
        UsageError: no bundle with tiers, a changed file, an unknown device, or no connection.
        StageError: the device could not run them.
    """
    folder = bundle / FOLDER
    document = _read_document(folder)
    profiles = load_known_devices()
    profile, _ = profiles.select(device)
    if settings is not None and settings.way == "adb":
        profiles.refuse_other_phone(profile, settings)
    connection_settings = settings or profile.connection
    if connection_settings is None or connection_settings.here:
        raise UsageError(f"'{device}' has no connection", "add --ssh HOST or --adb SERIAL")
    connection = connection_settings.connect()
    names = [row["file"] for row in document["tiers"]]
    job = MeasurementJob(
        tuple(folder / name for name in names), (document["threads"],), runtime="tflite"
    )
    passed: list[bool | None] = [None] * len(names)
    with lock_device(connection.label):
        # The vectors are run by Python, which a phone behind adb lacks.
        if isinstance(connection, SshConnection):
            passed = _run_vectors(connection, folder, names)
        times_ms = [timing.median_ms for timing in connection.measure(job)]
    budget_ms = document["budget_ms"]
    tiers = list[VerifiedTier]()
    for name, has_passed, milliseconds in zip(names, passed, times_ms, strict=True):
        tiers.append(VerifiedTier(name, has_passed, milliseconds, milliseconds <= budget_ms))
    selector = TierSelector(document, {"names": [profile.soc, profile.name]})
    selector.failed = [place for place, has_passed in enumerate(passed) if has_passed is False]
    tier = selector.place(times_ms[document["measured_tier"]])
    return VerifiedFiles(device, tuple(tiers), tier, budget_ms)


def _read_document(folder: Path) -> dict[str, Any]:
    """Return ``tiers.json``; UsageError if it, or a file that it names, is missing or changed."""
    hint = "advisor export runs/latest --to bundle --tiers makes one"
    if not (folder / DOCUMENT).is_file():
        raise UsageError(f"'{folder.parent}' is not a bundle with the files of a fleet", hint)
    document = read_json(folder / DOCUMENT)
    try:
        assert isinstance(document, dict)
        for row in document["tiers"]:
            name = row["file"]
            # A name with a folder in it could name any file of this machine,
            # which would be sent to the device.
            is_inside = Path(name).name == name
            if not is_inside or sha256_file(folder / name) != row["sha256"]:
                raise UsageError(f"{name} of '{folder}' was changed", hint)
    except (AssertionError, KeyError, TypeError, OSError) as error:
        raise UsageError(
            f"{folder / DOCUMENT} cannot be read ({type(error).__name__})", hint
        ) from None
    return document


def _run_vectors(connection: SshConnection, folder: Path, names: list[str]) -> list[bool | None]:
    """Return whether each file computes what is expected, by a program on the device."""
    room = Path(__file__).parent
    programs = (room / "on_device.py", room / "selector.py", Path(check.__file__))
    files = {path.name: path for path in programs}
    for name in (DOCUMENT, *names):
        files[name] = folder / name
    finished = connection.run(files, [programs[0].name], TIMEOUT_S)
    passed = read_document(finished).get("passed")
    if not isinstance(passed, list) or len(passed) != len(names):
        raise StageError(
            f"{connection.label}: the test vectors gave no answer: {json.dumps(passed)}"
        )
    return passed
