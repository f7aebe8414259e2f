"""Answer a run for another fleet, or for profiles that changed: which phones get another file?

``advisor reevaluate --fleet`` calls :func:`reevaluate_fleet`, which writes a new run. It reads the
answer that the earlier run keeps in ``recommendation.json``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from advisor.core import HOST, listed
from advisor.engine import Child, LoadedRun, read_origin
from advisor.integrations.fleet._answer import FleetAnswer, fleet_answer
from advisor.store import sha256_json


@dataclass(frozen=True)
class PhoneChange:
    """A phone that gets another file, or is new or gone."""

    name: str
    share: float  # of the users, 0 to 1
    before: str  # key of its file in the earlier answer; empty for none
    after: str  # key of its file now; empty for none


@dataclass(frozen=True)
class FleetChange:
    """The change of a run's answer by a new fleet or new profiles.

    Attributes:
        run: the new run; its bundle has the new files.
        parent: the run that was answered again.
        reason: the new answer.
        phones: what changes for phones.
        added: files that the parent's answer did not have.
        removed: files that are no longer needed.
    """

    run: Path
    parent: str
    reason: str
    phones: tuple[PhoneChange, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]

    @property
    def changed(self) -> bool:
        """True if a file changes, so that the app needs a new version."""
        return bool(self.added or self.removed)

    @property
    def share(self) -> float:
        """Share of the users whose phone gets another file."""
        return sum(phone.share for phone in self.phones)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The change in words."""
        files = (
            f"new files: {listed(self.added) or 'none'}; no longer needed:"
            f" {listed(self.removed) or 'none'}"
        )
        phones = [f"{phone.name} ({100 * phone.share:.1f} %)" for phone in self.phones]
        named = listed(phones, 10) or "none"
        head = f"Changed: {files}" if self.changed else "The files are the same"
        return (
            f"{head}.",
            (
                f"Phones that get another file: {named}; together {100 * self.share:.1f} % of the"
                " users."
            ),
            f"Now: {self.reason}.",
        )

    def to_json(self) -> dict[str, object]:
        """Return the change as plain JSON values."""
        facts = {
            **asdict(self),
            "run": str(self.run),
            "changed": self.changed,
            "share": self.share,
        }
        return {"schema_version": 1, **facts}


def reevaluate_fleet(run: Path, fleet: str) -> FleetChange:
    """Answer a run for a fleet (a path or a shipped name) and write that as a new run.

    Returns how the new answer differs from that of the run.

    Raises:
        UsageError: the fleet or the run cannot be read, or the run does not prove itself.
        StageError: the run has no file.
    """
    before = LoadedRun.load(run)
    before.require_proof()
    then = _read_stored(before.folder.read_json("recommendation.json"))
    after = LoadedRun.load(before.folder, {"fleet": fleet})
    answer = fleet_answer(after.question, after.evaluations)
    now = _tiers_by_phone(answer)
    shares = {phone.name: phone.share for phone in answer.fleet.phones}
    changes = list[PhoneChange]()
    for name in dict.fromkeys((*now, *then)):
        file_before = then.get(name, "")
        file_after = now.get(name, "")
        if file_before != file_after:
            changes.append(PhoneChange(name, shares.get(name, 0.0), file_before, file_after))
    files = set(now.values())
    earlier_files = set(then.values())
    environment = sha256_json([after.question.fleet, now])
    origin = read_origin(before.folder.path.resolve())
    child = Child(after.evaluations, HOST, environment, {}).write(after, origin)
    return FleetChange(
        child.path,
        before.name,
        answer.reason,
        tuple(changes),
        tuple(sorted(files - earlier_files)),
        tuple(sorted(earlier_files - files)),
    )


def _tiers_by_phone(answer: FleetAnswer) -> dict[str, str]:
    """Return the key of the file of each phone."""
    tiers = {}
    for assigned in answer.option.phones:
        tiers[assigned.phone.name] = answer.option.files[assigned.tier].configuration.key
    return tiers


def _read_stored(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the file of each phone in the answer that a run keeps; nothing if it has none."""
    try:
        fleet = document["fleet"]
        option = fleet["options"][fleet["recommended_files"] - 1]
        return {name: option["files"][row["tier"]] for name, row in option["devices"].items()}
    except (KeyError, TypeError, IndexError):
        return {}
