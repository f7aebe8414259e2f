"""Verify the files of a fleet on a device that is connected: test vectors, and the time of each file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from advisor.core import StageError, UsageError, show_ms
from advisor.devices import (
    ConnectionSettings,
    MeasurementJob,
    SshConnection,
    load_known_devices,
    lock_device,
    read_document,
)
from advisor.exporting import check
from advisor.fleet._tiers import DOCUMENT, FOLDER
from advisor.fleet.selector import TierSelector
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
        """Whether no file computes something else, and the chosen one meets the budget."""
        chosen = self.tier is not None and self.tiers[self.tier].meets_budget
        return chosen and all(file.passed is not False for file in self.tiers)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The result in words."""
        said = {True: "passes the test vectors", False: "computes something else", None: "its vectors were not run"}
        rows = (
            f"{file.file}: {show_ms(file.milliseconds)}, {said[file.passed]}"
            f"{'' if file.meets_budget else f'; does not meet {show_ms(self.budget_ms)}'}"
            for file in self.tiers
        )
        file = "no file" if self.tier is None else self.tiers[self.tier].file
        return (*rows, f"On {self.device} the selector chooses {file}.")

    def to_json(self) -> dict[str, object]:
        """Return the result as plain JSON values."""
        return {"schema_version": 1, **asdict(self), "good": self.good}


def verify_bundle(device: str, bundle: Path, settings: ConnectionSettings | None) -> VerifiedFiles:
    """Run the test vectors of a bundle over ssh, and time its files over ssh or adb.

    UsageError: no bundle with tiers, a file that was changed, an unknown device, or no connection. StageError: the
    device could not run them.
    """
    folder = bundle / FOLDER
    document = _read_document(folder)
    profile, _ = load_known_devices().select(device)
    chosen = settings or profile.connection
    if chosen is None or chosen.here:
        raise UsageError(f"'{device}' has no connection", "add --ssh HOST or --adb SERIAL")
    connection = chosen.connect()
    names = [row["file"] for row in document["tiers"]]
    job = MeasurementJob(tuple(folder / name for name in names), (document["threads"],), runtime="tflite")
    with lock_device(connection.label):
        passed = (
            _run_vectors(connection, folder, names) if isinstance(connection, SshConnection) else [None] * len(names)
        )
        times = [timing.median_ms for timing in connection.measure(job)]
    budget = document["budget_ms"]
    rows = zip(names, passed, times, strict=True)
    tiers = tuple(VerifiedTier(name, right, ms, ms <= budget) for name, right, ms in rows)
    selector = TierSelector(document, {"names": [profile.soc, profile.name]})
    selector.failed = [place for place, right in enumerate(passed) if right is False]
    return VerifiedFiles(device, tiers, selector.place(times[document["measured_tier"]]), budget)


def _read_document(folder: Path) -> dict[str, Any]:
    hint = "advisor export RUN --to BUNDLE --tiers makes one"
    if not (folder / DOCUMENT).is_file():
        raise UsageError(f"'{folder.parent}' is not a bundle with the files of a fleet", hint)
    document = read_json(folder / DOCUMENT)
    try:
        assert isinstance(document, dict)
        for row in document["tiers"]:
            if Path(row["file"]).name != row["file"] or sha256_file(folder / row["file"]) != row["sha256"]:
                raise UsageError(f"{row['file']} of '{folder}' was changed", hint)
    except (AssertionError, KeyError, TypeError, OSError) as error:
        raise UsageError(f"{folder / DOCUMENT} cannot be read ({type(error).__name__})", hint) from None
    return document


def _run_vectors(connection: SshConnection, folder: Path, names: list[str]) -> list[bool | None]:
    folder_here = Path(__file__).parent
    programs = (folder_here / "on_device.py", folder_here / "selector.py", Path(check.__file__))
    sent = {path.name: path for path in programs} | {name: folder / name for name in (DOCUMENT, *names)}
    finished = connection.run(sent, [programs[0].name], TIMEOUT_S)
    passed = read_document(finished).get("passed")
    if not isinstance(passed, list) or len(passed) != len(names):
        raise StageError(f"{connection.label}: the test vectors gave no answer: {json.dumps(passed)}")
    return passed
