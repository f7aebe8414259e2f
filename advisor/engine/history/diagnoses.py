"""Diagnose at the end of a search why compressed forms of the best cards lose accuracy."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from advisor.compression.diagnosis.diagnose import run_in_child
from advisor.core.errors import AdvisorError
from advisor.core.evaluation import Evaluation, Status, variant_of
from advisor.engine.history.loaded_run import LoadedRun, input_spec, load_run
from advisor.store import ArtifactCache, RunFolder
from advisor.store.files import sha256_file
from advisor.store.jsonfile import read_json

FILE = "diagnosis.json"
MOST = 2
"""Most forms to diagnose, each of another card."""

IMAGES = 8
SECONDS = 8.0
"""Time for one form; an image that was begun is finished."""

CLEAR_POINTS = 2.0
"""An estimated loss counts from this number of points on."""

_FLOATS = frozenset({"float32", "float16"})


def diagnose_run(folder: RunFolder) -> None:
    """Write ``diagnosis.json`` where a form of a card on the front loses clearly, or more than ``--max-drop``.

    A form that cannot be diagnosed is left out: a report without this part is better than none.
    """
    found = [
        {"key": row.configuration.key, "diagnosis": diagnosis} for row, diagnosis in _diagnoses(load_run(folder.path))
    ]
    if found:
        folder.write_json(FILE, {"forms": found})


def losing(run: LoadedRun) -> tuple[Evaluation, ...]:
    """Return the forms to diagnose: of each card on the front the one that loses most, the largest loss first."""
    front = {row.configuration.card for row in (run.decision.front or ())}
    limit = run.question.limits.max_drop_points
    rows = [row for row in run.evaluations if row.configuration.card in front and _lost(row, limit)]
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


def _diagnoses(run: LoadedRun) -> Iterator[tuple[Evaluation, object]]:
    images = _images(run)
    for row in losing(run):
        origin = _origin(run, row)
        if origin is None:
            continue
        try:
            yield row, _diagnosis(run.folder.path / row.artefact, origin, images, row)
        except (AdvisorError, OSError, KeyError, TypeError, ValueError):
            continue


def _origin(run: LoadedRun, row: Evaluation) -> Path | None:
    """Return the float32 file of the same card and training, None where there is none."""
    wanted = (row.configuration.card, row.configuration.training, "float32")
    for other in run.evaluations:
        if other.artefact and variant_of(other) == wanted:
            path = run.folder.path / other.artefact
            return path if path.is_file() else None
    return None


def _images(run: LoadedRun) -> tuple[Path, ...]:
    """Return a few training images, evenly drawn; none where they are no longer available."""
    rows = run.folder.read_json("split.json").get("train") or []
    if not rows or run.question.data is None:
        return ()
    root = run.question.data
    chosen = rows[:: max(1, len(rows) // IMAGES)][:IMAGES]
    paths = tuple((root if root.is_dir() else root.parent) / str(row.get("path")) for row in chosen)
    return paths if all(path.is_file() for path in paths) else ()


def _diagnosis(model: Path, origin: Path, images: Sequence[Path], row: Evaluation) -> object:
    spec = input_spec(row)
    source = f"{len(images)} training images" if images else "bundled photographs"
    inputs = {
        "model": row.artefact_sha256,
        "origin": sha256_file(origin),
        "pictures": [sha256_file(path) for path in images],
    }

    def make(folder: Path) -> None:
        found = run_in_child(model, origin, images, spec, source, SECONDS).to_json()
        document = {**found, "model": model.name, "against": origin.name}
        (folder / FILE).write_text(json.dumps(document, allow_nan=False), encoding="utf-8")

    cached = ArtifactCache().get("diagnosis-2", inputs, make)
    return read_json(cached / FILE)
