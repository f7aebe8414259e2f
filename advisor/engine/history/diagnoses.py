"""Why the compressed forms of the best cards lose what they lose: looked into once, at the end of a search."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from advisor.compression.diagnosis.request import run_in_child
from advisor.core.errors import AdvisorError
from advisor.core.evaluation import Evaluation, Status
from advisor.engine.history.input_spec import input_spec
from advisor.engine.history.loaded_run import LoadedRun, read_run
from advisor.store import ArtifactCache, RunFolder
from advisor.store.hashing import sha256_file

FILE = "diagnosis.json"
MOST = 2
"""How many forms are looked into, each of another card."""

IMAGES = 8
SECONDS = 8.0
"""For one form; a picture that was begun is finished."""

CLEAR_POINTS = 2.0
"""A loss that is only estimated counts from here on."""

_FLOATS = frozenset({"float32", "float16"})


def diagnose_run(run: RunFolder) -> None:
    """Write ``diagnosis.json`` where a form of a card on the front loses clearly, or more than ``--max-drop``.

    What cannot be looked into is left out: a report without this part is better than none.
    """
    stored = read_run(run.path)
    found = [{"key": row.configuration.key, "diagnosis": told} for row, told in _told(stored)]
    if found:
        run.write_json(FILE, {"forms": found})


def losing(stored: LoadedRun) -> tuple[Evaluation, ...]:
    """Return the forms to look into: the one that loses most of each card on the front, the greatest loss first."""
    front = {row.configuration.card for row in (stored.decision.front or ())}
    limit = stored.question.limits.max_drop_points
    rows = [row for row in stored.evaluations if row.configuration.card in front and _lost(row, limit)]
    rows.sort(key=lambda row: -(row.drop.value if row.drop else 0.0))
    by_card: dict[str, Evaluation] = {}
    for row in rows:
        by_card.setdefault(row.configuration.card, row)
    return tuple(by_card.values())[:MOST]


def _lost(row: Evaluation, limit: float | None) -> bool:
    if row.status is not Status.OK or row.drop is None or row.configuration.compression in _FLOATS or not row.artefact:
        return False
    if limit is not None and row.drop.value > limit:
        return True
    return row.drop.low > 0 if row.drop.low is not None else row.drop.value >= CLEAR_POINTS


def _told(stored: LoadedRun) -> Iterator[tuple[Evaluation, dict[str, Any]]]:
    images = _images(stored)
    for row in losing(stored):
        origin = _origin(stored, row)
        if origin is None:
            continue
        try:
            yield row, _diagnosis(stored.folder.path / row.artefact, origin, images, row)
        except (AdvisorError, OSError, KeyError, TypeError, ValueError):
            continue


def _origin(stored: LoadedRun, row: Evaluation) -> Path | None:
    """Return the float file of the same card and training."""
    for other in stored.evaluations:
        same = (other.configuration.card, other.configuration.training) == (
            row.configuration.card,
            row.configuration.training,
        )
        if same and other.configuration.compression == "float32" and other.artefact:
            path = stored.folder.path / other.artefact
            return path if path.is_file() else None
    return None


def _images(stored: LoadedRun) -> tuple[Path, ...]:
    """Return a few training pictures, evenly drawn; none where they are not there (any more)."""
    rows = stored.folder.read_json("split.json").get("train") or []
    if not rows or stored.question.data is None:
        return ()
    root = stored.question.data
    chosen = rows[:: max(1, len(rows) // IMAGES)][:IMAGES]
    paths = tuple((root if root.is_dir() else root.parent) / row["path"] for row in chosen)
    return paths if all(path.is_file() for path in paths) else ()


def _diagnosis(model: Path, origin: Path, images: Sequence[Path], row: Evaluation) -> dict[str, Any]:
    view = input_spec(row)
    source = f"{len(images)} training pictures" if images else "bundled photographs"
    inputs = {
        "model": row.artefact_sha256,
        "origin": sha256_file(origin),
        "pictures": [sha256_file(path) for path in images],
    }

    def make(folder: Path) -> None:
        found = run_in_child(model, origin, images, view, source, SECONDS).to_json()
        told = {**found, "model": model.name, "against": origin.name}
        (folder / FILE).write_text(json.dumps(told, allow_nan=False), encoding="utf-8")

    kept = ArtifactCache().get("diagnosis-2", inputs, make)
    told: dict[str, Any] = json.loads((kept / FILE).read_text(encoding="utf-8"))
    return told
