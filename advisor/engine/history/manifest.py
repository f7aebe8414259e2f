"""Write what a run's figures depend on: the images, the versions, the machine, the weights."""

from __future__ import annotations

import contextlib
import resource
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from advisor.catalog.cards import Card
from advisor.compression.recipes import Recipe
from advisor.engine.history.loaded_run import section
from advisor.engine.history.resume import space_of
from advisor.engine.pipeline.images import Images
from advisor.engine.pipeline.materials import versions
from advisor.engine.question import Request
from advisor.engine.question.names import without_password
from advisor.engine.space.candidates import Candidates, card_hash
from advisor.engine.space.plan import Plan
from advisor.measurement import host
from advisor.store import RunFolder
from advisor.version import __version__

PACKAGES = (
    "tensorflow", "keras", "ai-edge-litert", "ai-edge-quantizer", "optuna", "scikit-learn", "scikit-image", "numpy",
    "pillow",
)  # fmt: skip


def write_images(run: RunFolder, images: Images) -> None:
    """Write ``split.json`` and ``dataset.json``: the images, the rejected files, and the split."""
    dataset, split = images.dataset, images.split
    run.write_json("split.json", split.to_json(dataset))
    counts = dict(zip(dataset.classes, dataset.counts, strict=True))
    rejected = [{"path": str(row.path), "reason": row.reason} for row in dataset.rejected]
    run.write_json(
        "dataset.json",
        {
            "folder": str(dataset.root),
            "pictures_per_class": counts,
            "train": len(split.train),
            "validation": len(split.validation),
            "holdout": len(split.holdout),
            "own_split": list(split.given),
            "rejected": rejected,
            "leaks": [[dataset.shown(dataset.images[index].path) for index in group] for group in images.leaks],
            "fingerprint": dataset.fingerprint,
        },
    )


def describe_run(
    request: Request,
    candidates: Candidates,
    plan: Plan,
    cards: Sequence[Card],
    recipes: Mapping[str, Recipe],
    data_fingerprint: str,
) -> dict[str, object]:
    """Return the manifest, without the entries that are known only at the end of a search."""
    weights = {
        name: {"sha256": file.sha256, "source": file.source} if file else "fixed-seed random weights"
        for name, file in candidates.weights.items()
    }
    return {
        "advisor": __version__,
        "command_line": [without_password(argument) for argument in sys.argv],
        "updated": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"python": sys.version.split()[0], **versions(*PACKAGES)},
        "host": host.describe().to_json(),
        "seeds": {"seed": request.question.seed},
        "data_fingerprint": data_fingerprint,
        "weights": weights,
        "cards": {card.name: card_hash(card) for card in cards},
        "without_weights": dict(candidates.missing),
        "configurations": plan.size,
        "space": space_of(plan, recipes),
        "time_limit": request.execution.time_limit,
        "parent_peak_bytes": _peak_bytes(),
    }


def write_manifest(run: RunFolder, manifest: Mapping[str, object]) -> None:
    """Write ``manifest.json``; cards that the run considered before it was resumed stay in it."""
    considered = section(run.read_json("manifest.json"), "cards")
    run.write_json("manifest.json", {**manifest, "cards": {**considered, **section(manifest, "cards")}})


def _peak_bytes() -> int:
    """Return the peak resident memory of this process in bytes.

    On Linux it is read from ``/proc``, because ``getrusage`` also counts the process that started this one.
    """
    with contextlib.suppress(OSError, StopIteration):
        status = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return int(next(line for line in status if line.startswith("VmHWM:")).split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
