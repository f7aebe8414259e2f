"""Diagnose why compressed forms of the best cards of a run lose accuracy.

``advisor search`` calls ``diagnose_run`` after a search that no limit ended, and reports read
``diagnosis.json``. A diagnosis is cached under ``diagnosis-3``: another content needs another
number.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from advisor.core import FLOAT, AdvisorError, Diagnosis, Evaluation, Status, parse
from advisor.datasets import sha256_of
from advisor.engine._diagnosis import run_in_child
from advisor.engine._history.loaded_run import LoadedRun, input_spec
from advisor.engine._history.run_inputs import images_folder
from advisor.store import ArtifactCache, RunFolder, read_json, sha256_file

DIAGNOSES = "diagnosis.json"

MOST = 2
"""Most forms to diagnose, each of another card."""

IMAGES = 8
SECONDS = 8.0
"""Training images and time for the diagnosis of one form; an image that was begun is finished."""

CLEAR_POINTS = 2.0
"""An estimated loss counts from this number of points on."""


def read_diagnoses(folder: RunFolder) -> dict[str, Diagnosis]:
    """Return the diagnoses of compressed files;
    nothing where they are missing or of another version.
    """
    try:
        rows = folder.read_json(DIAGNOSES).get("forms") or []
        return {str(row["key"]): parse(Diagnosis, row["diagnosis"]) for row in rows}
    except (KeyError, TypeError, ValueError):
        return {}


def diagnose_run(folder: RunFolder) -> None:
    """Write ``diagnosis.json`` where a form of a card on the front loses clearly and can be
    diagnosed.
    """
    run = LoadedRun.load(folder)
    entries = []
    forms = list_losing(run)
    images = _choose_images(run) if forms else ()
    files = {}
    # Read from behind, so that the first evaluation of each file is kept.
    for row in reversed(run.evaluations):
        if row.artefact:
            files[row.variant] = run.folder.path / row.artefact
    # A diagnosis is an addition to the answer:
    # a form that cannot be diagnosed leaves no error, only no entry.
    for row in forms:
        float_file = files.get(row.variant._replace(compression=FLOAT))
        if float_file is None or not float_file.is_file():
            continue
        with suppress(AdvisorError, OSError, KeyError, TypeError, ValueError):
            diagnosis = _diagnose_form(run.folder.path / row.artefact, float_file, images, row)
            entries.append({"key": row.configuration.key, "diagnosis": diagnosis})
    if entries:
        folder.write_json(DIAGNOSES, {"forms": entries})
        folder.reseal(DIAGNOSES)


def list_losing(run: LoadedRun) -> tuple[Evaluation, ...]:
    """Return the forms to diagnose: of each card on the front the one that loses most,
    the largest loss first.
    """
    front = {row.configuration.card for row in run.decision.front or ()}
    limit = run.question.limits.max_drop_points
    rows = []
    for row in run.evaluations:
        if row.configuration.card in front and _has_lost(row, limit):
            rows.append(row)
    rows.sort(key=lambda row: -(row.drop.value if row.drop else 0.0))
    by_card: dict[str, Evaluation] = {}
    # The rows are sorted by their loss, so the first of each card lost most.
    for row in rows:
        by_card.setdefault(row.configuration.card, row)
    return tuple(by_card.values())[:MOST]


def _has_lost(row: Evaluation, limit: float | None) -> bool:
    """Return whether a form loses more points than the limit allows, or clearly."""
    is_float = row.configuration.compression in ("float32", "float16")
    if row.status is not Status.OK or is_float:
        return False
    if row.drop is None or not row.artefact:
        return False
    if limit is not None and row.drop.value > limit:
        return True
    # A measured drop counts if its interval excludes 0. An estimated one has no interval.
    if row.drop.low is not None:
        return row.drop.low > 0
    return row.drop.value >= CLEAR_POINTS


def _choose_images(run: LoadedRun) -> tuple[Path, ...]:
    """Return a few training images, evenly drawn; none where they are no longer available."""
    rows = run.folder.read_json("split.json").get("train") or []
    root = images_folder(run.folder)
    if not rows:
        return ()
    # Evenly over the list: neighbours in it often show the same class.
    chosen = rows[:: max(1, len(rows) // IMAGES)][:IMAGES]
    paths = tuple(root / str(row.get("path")) for row in chosen)
    if all(path.is_file() for path in paths):
        return paths
    return ()


def _diagnose_form(
    model: Path, float_file: Path, images: Sequence[Path], row: Evaluation
) -> object:
    """Return the diagnosis of a form as JSON, from the cache or by a child process."""
    spec = input_spec(row)
    source = f"{len(images)} training images" if images else "bundled photographs"

    def make(folder: Path) -> None:
        diagnosis = run_in_child(model, float_file, images, spec, source, SECONDS).to_json()
        document = {**diagnosis, "model": model.name, "against": float_file.name}
        (folder / DIAGNOSES).write_text(json.dumps(document, allow_nan=False), encoding="utf-8")

    inputs = {
        "model": sha256_file(model),
        "origin": sha256_file(float_file),
        "pictures": list(map(sha256_of, images)),
    }
    return read_json(ArtifactCache().get("diagnosis-3", inputs, make) / DIAGNOSES)
