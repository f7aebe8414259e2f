"""Run folders written through the store, with figures that tests state; no figure is a measurement of a real model."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from advisor.core.evaluation import Evaluation, Status
from advisor.engine.question import resolve
from advisor.store import RunFolder
from tests.builders import evaluation

VERSIONS = {"python": "3.11.7", "ai-edge-litert": "2.3.0"}
HOST = {"cpu": "test processor", "cores": 2, "fingerprint": "a" * 16}


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
    run.write_json("manifest.json", {"advisor": "0.1.0", "versions": VERSIONS, "host": HOST, **(manifest or {})})
    if dataset is not None:
        run.write_json("dataset.json", dataset)
    for one in candidates() if evaluations is None else evaluations:
        run.append(with_artefact(run, one))
    return run


def with_artefact(run: RunFolder, one: Evaluation) -> Evaluation:
    if one.status is not Status.OK or one.artefact:
        return one
    configuration = one.configuration
    name = f"{configuration.card}-{configuration.training}-{configuration.compression}.tflite"
    content = name.encode()
    (run.artefacts / name).write_bytes(content)
    return replace(one, artefact=f"artifacts/{name}", artefact_sha256=hashlib.sha256(content).hexdigest())


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
