"""Run folders written through the store, with figures that tests state; no figure is a measurement of a real model."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL import Image, ImageOps

from advisor.core import (
    BoxFacts,
    ClassBoxes,
    Evaluation,
    ImageAnswers,
    JudgedBox,
    JudgedImage,
    Provenance,
    Quantity,
    Status,
)
from advisor.datasets import ONE_CLASS
from advisor.engine import LoadedRun, SearchTask, resolve
from advisor.engine._history.manifest import write_images
from advisor.store import RunFolder
from advisor.tasks.detection import DETECTION
from tests.builders import evaluation

VERSIONS = {"python": "3.11.7", "ai-edge-litert": "2.3.0"}
HOST = {"cpu": "test processor", "cores": 2, "fingerprint": "a" * 16}
WORST = (("first", 0.0, 90), ("<b>gone", 0.5, 120), ("last", 1.0, 150))


def candidates() -> list[Evaluation]:
    """Three candidates of which each is the best in one figure; ``best`` is picked under 50 ms."""
    return [
        evaluation("best", "int8", accuracy=92, half_width=1, latency=20, size=6e6),
        evaluation("fast", "int8", accuracy=84, half_width=1, latency=4, size=5e6),
        evaluation("small", "int8", accuracy=80, half_width=1, latency=9, size=1e6),
    ]


def write_run(
    out: Path,
    evaluations: Iterable[Evaluation] | None = None,
    *,
    request: Mapping[str, Any] | None = None,
    manifest: Mapping[str, Any] | None = None,
    dataset: Mapping[str, Any] | None = None,
    name: str = "run",
) -> RunFolder:
    """Write a run folder under ``out``; every evaluation that is ok gets an artefact of a few bytes of its own."""
    run = RunFolder.create(out, name)
    run.write_request(resolve({"budget": "50ms", "out": str(out), **(request or {})}).written)
    if dataset is not None:
        run.write_json("dataset.json", dataset)
    for one in candidates() if evaluations is None else evaluations:
        run.append(with_artefact(run, one))
    run.write_json("manifest.json", {"advisor": "0.1.0", "versions": VERSIONS, "host": HOST, **(manifest or {})})
    return run


def write_split(out: Path, table: Path, task: SearchTask) -> RunFolder:
    """Write a run with the images of a table, as a search divides them."""
    run = write_run(out, request={"data": str(table), "task": task.name})
    write_images(run, task.read(LoadedRun.load(run).question, lambda _: None))
    return run


def add_copies(run: RunFolder, folder: Path) -> None:
    """Add ``90.png``, a copy of ``60.png``; ``91.png`` mirrors an image of the hold-out, ``92.png`` a training one."""
    (folder / "90.png").write_bytes((folder / "60.png").read_bytes())
    for number, part in ((91, "holdout"), (92, "train")):
        name = run.read_json("split.json")[part][0]["path"]
        ImageOps.mirror(Image.open(folder / name)).save(folder / f"{number}.png")


def with_artefact(run: RunFolder, one: Evaluation) -> Evaluation:
    if one.status is not Status.OK or one.artefact:
        return one
    configuration = one.configuration
    name = f"{configuration.card}-{configuration.training}-{configuration.compression}.tflite"
    content = name.encode()
    (run.artefacts / name).write_bytes(content)
    return replace(one, artefact=f"artifacts/{name}", artefact_sha256=hashlib.sha256(content).hexdigest())


def aged(run: RunFolder) -> None:
    """Make a run folder as versions before 0.2.0 wrote it, without hashes."""
    rows = [json.loads(line) for line in lines(run)]
    kept = ({name: value for name, value in row.items() if name not in ("before", "hash")} for row in rows)
    run.evaluations_file.write_text("".join(f"{json.dumps(row)}\n" for row in kept), encoding="utf-8")
    manifest = json.loads((run.path / "manifest.json").read_text(encoding="utf-8"))
    manifest.pop("seal")
    (run.path / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def images(counts: Mapping[str, int], fingerprint: str = "f" * 64) -> dict[str, Any]:
    """Return a ``dataset.json``."""
    total = sum(counts.values())
    fifth = total // 5
    return {
        "folder": "photos",
        "pictures_per_class": dict(counts),
        "train": total - 2 * fifth,
        "validation": fifth,
        "holdout": fifth,
        "own_split": [],
        "rejected": [],
        "leaks": [],
        "fingerprint": fingerprint,
    }


def lines(run: RunFolder) -> Sequence[str]:
    return run.evaluations_file.read_text(encoding="utf-8").splitlines()


def write_judged_detectors(out: Path) -> RunFolder:
    """Write a run of detectors that were judged on the hold-out, with three of its images; the second one is gone."""
    photos = out / "photos"
    photos.mkdir(parents=True)
    worst = [_judged(photos / f"{name}.png", f1, shade) for name, f1, shade in WORST]
    (photos / "<b>gone.png").unlink()
    counts = {"cat": ClassBoxes(4, 5, 0.6, 0.75, 0.25, 0.5), "dog": ClassBoxes(3, 1, 1.0, 1 / 3, 2 / 3, 1 / 3)}
    counts["owl"] = ClassBoxes(0, 0, None, None, None)
    boxes = BoxFacts(0.375, 0.512, counts, tuple(worst))
    chosen = ImageAnswers({"cat": 0.95, "dog": 0.85, "owl": None}, boxes=replace(boxes, worst=()))
    judged = ImageAnswers({"cat": 0.91, "dog": 0.82, "owl": None}, boxes=boxes)
    precision = Quantity(86.5, "%", Provenance.MEASURED, 80.0, 92.0, 0.95, 12, "hold-out")
    made = {"answers": chosen, "holdout_answers": judged, "holdout_accuracy": precision}
    rows = [replace(row, **made) for row in candidates()]
    per_class = {"boxes_per_class": {"cat": 70, "dog": 49, "owl": 1}, "folder": str(photos)}
    request = {"task": DETECTION.name, "data": "boxes", "min_accuracy": "50%"}
    return write_run(out, rows, request=request, dataset={**images({ONE_CLASS: 60}), **per_class})


def _judged(path: Path, f1: float, shade: int) -> JudgedImage:
    """Draw an image of one shade, and return it with a cat that was found and a dog that was taken for a cat."""
    Image.new("RGB", (64, 48), (shade,) * 3).save(path)
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    cat, dog = (0, 0.1, 0.1, 0.4, 0.3, 1.0, True), (1, 0.5, 0.5, 0.9, 0.9, 1.0, False)
    found = ((0, 0.1, 0.1, 0.4, 0.35, 0.9, True), (0, 0.5, 0.5, 0.9, 0.9, 0.6, False))
    true, answered = ([JudgedBox(*box) for box in some] for some in ((cat, dog), found))
    return JudgedImage(path.name, sha256, 64, 48, f1, tuple(true), tuple(answered))
