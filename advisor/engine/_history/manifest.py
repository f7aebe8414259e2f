"""Write the manifest of a run, which says what its figures depend on, and compare it on resume.

A search writes it before its first job and at its end. ``--resume`` refuses to go on where cards,
recipes, images or weights are others now. The keys are read by re-evaluations and comparisons of
later versions, and ``card_hash`` is compared with that of earlier runs: both must stay.
"""

from __future__ import annotations

import contextlib
import json
import resource
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.catalog import Card
from advisor.core import LOCAL, UsageError, utf8, without_passwords
from advisor.datasets import SplitPart
from advisor.engine._history.run_inputs import read_section
from advisor.engine._pipeline.images import Images
from advisor.engine._pipeline.materials import list_versions
from advisor.measurement import host
from advisor.store import RunFolder, sha256_json
from advisor.version import __version__

if TYPE_CHECKING:
    from advisor.engine._question import Request
    from advisor.engine._space.candidates import Candidates
    from advisor.engine._space.plan import Plan
    from advisor.engine._space.resolved import Resolved

PACKAGES = (
    "tensorflow",
    "keras",
    "ai-edge-litert",
    "ai-edge-quantizer",
    "optuna",
    "scikit-image",
    "numpy",
    "pillow",
)

START_ANEW = "start a new run: unchanged work is taken from the cache"
SHOWN = 5
"""Most names in a message."""


# A re-evaluation of many runs asks for the same cards again and again.
@lru_cache(maxsize=10_000)
def card_hash(card: Card) -> str:
    """Return the hash of everything that the catalogue says of the card,
    without passwords in addresses.
    """
    # Values that JSON does not have, such as paths, become texts.
    facts = json.loads(json.dumps(asdict(card), default=str))
    return sha256_json(without_passwords(facts))


def write_images(run: RunFolder, images: Images) -> None:
    """Write ``split.json`` and ``dataset.json``: the images, the rejected files, and the split."""
    dataset = images.dataset
    split = images.split
    leaks = []
    for group in images.leaks:
        leaks.append([dataset.show_path(dataset.images[index].path) for index in group])
    run.write_json("split.json", split.to_json(dataset, images.grouping))
    run.write_json(
        "dataset.json",
        {
            "folder": str(dataset.root),
            "pictures_per_class": dict(zip(dataset.classes, dataset.counts, strict=True)),
            **{part: len(getattr(split, part)) for part in SplitPart},
            "listed": dataset.listed,
            "most_images": dataset.most,
            "own_split": list(split.given),
            "grouping": images.grouping.to_json(),
            "notes": list(images.notes),
            "rejected": [
                {"path": utf8(str(row.path)), "reason": row.reason} for row in dataset.rejected
            ],
            "leaks": leaks,
            "copies": dict(images.copies),
            "fingerprint": dataset.fingerprint,
            **({"boxes_per_class": images.boxes.counts} if images.boxes else {}),
        },
    )


def describe_run(resolved: Resolved, candidates: Candidates, plan: Plan) -> dict[str, object]:
    """Return the manifest, without the entries that are known only at the end of a search."""
    weights = dict[str, object]()
    for name, file in candidates.weights.items():
        weights[name] = "fixed-seed random weights"
        if file:
            weights[name] = {"sha256": file.sha256, "source": file.source}
    whole_networks = []
    for card in resolved.cards:
        if card.whole and card.name in candidates.missing:
            whole_networks.append(card.name)
    connections = dict[str, str]()
    for device in resolved.targets.devices:
        connections |= device.connections
    trains_on = "other machines"
    if resolved.execution.executor == LOCAL:
        trains_on = host.trains_on()
    return {
        "advisor": __version__,
        "command_line": without_passwords(sys.argv),
        "updated": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"python": sys.version.split()[0], **list_versions(*PACKAGES)},
        "host": host.describe().to_json(),
        "trains_on": trains_on,
        "seeds": {"seed": resolved.question.seed},
        "data_fingerprint": resolved.images.dataset.fingerprint if resolved.images else "",
        "weights": weights,
        "cards": {card.name: card_hash(card) for card in resolved.cards},
        "without_weights": dict(candidates.missing),
        "whole_networks": whole_networks,
        "connections": connections,
        "remarks": list(resolved.remarks),
        "configurations": plan.size,
        "space": {
            "cards": [card.name for card in plan.cards],
            "recipes": {name: resolved.recipes[name].version for name in plan.recipes},
            "threads": list(plan.threads),
            "training": list(plan.trainings),
            "runtime": plan.runtime,
        },
        "time_limit": resolved.execution.time_limit,
        "parent_peak_bytes": _peak_bytes(),
    }


def write_manifest(run: RunFolder, manifest: Mapping[str, object]) -> None:
    """Write ``manifest.json``; cards that the run considered before it was resumed stay in it.

    A resumed run tries a part of the cards. A later re-evaluation must not take the others for new
    ones, and the answer goes on to say which of them have no weights.
    """
    before = run.read_json("manifest.json")
    cards = {**read_section(before, "cards"), **read_section(manifest, "cards")}
    missing = {
        **read_section(before, "without_weights"),
        **read_section(manifest, "without_weights"),
    }
    for card in read_section(manifest, "weights"):
        missing.pop(card, None)
    run.write_json("manifest.json", {**manifest, "cards": cards, "without_weights": missing})


def _peak_bytes() -> int:
    """Return the peak resident memory of this process in bytes;
    ``getrusage`` counts its parent, too.
    """
    with contextlib.suppress(OSError, StopIteration):
        status = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        # VmHWM is in kB, and counts this process alone.
        line = next(line for line in status if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # macOS states bytes, and Linux kilobytes.
    return peak if sys.platform == "darwin" else peak * 1024


def keep_thread_counts(run: RunFolder, request: Request) -> Request:
    """Return the request of a resumed run with the CPU thread counts that it began with,
    if nobody chose some.

    They follow from the number of cores, and a run may go on on a machine with more or fewer.
    """
    counts = read_section(run.read_json("manifest.json"), "space").get("threads") or ()
    # Counts that the user named are a part of the question and stay as they are.
    if request.written["threads"] or not counts:
        return request
    question = replace(request.question, thread_counts=tuple(map(int, counts)))
    return replace(request, question=question)


def find_first_cards(run: RunFolder, resolved: Resolved) -> tuple[Card, ...]:
    """Return the cards that a run began with;
    refuse to go on where a part of its question is another now.
    """
    manifest = run.read_json("manifest.json")
    # Without it, the run was killed before it chose anything.
    if not isinstance(manifest.get("space"), dict):
        return resolved.cards
    space = read_section(manifest, "space")
    by_name = {card.name: card for card in resolved.cards}
    names = list(map(str, space.get("cards") or ()))
    hashes = read_section(manifest, "cards")
    recipes = {name: recipe.version for name, recipe in resolved.recipes.items()}
    # Names and versions that are in one of the two alone.
    others = sorted(set(recipes.items()) ^ set(read_section(space, "recipes").items()), key=str)
    fingerprint = resolved.images.dataset.fingerprint if resolved.images else ""
    gone = []
    changed = []
    for name in names:
        if name not in by_name:
            gone.append(name)
        elif hashes.get(name) != card_hash(by_name[name]):
            changed.append(name)
    changes = {
        "candidates": gone,
        "catalogue's entries": changed,
        "compression recipes": [f"{name} (version {version})" for name, version in others],
        "training recipes": _describe_change(space.get("training"), list(resolved.trainings)),
        "thread counts": _describe_change(
            space.get("threads"), list(resolved.question.thread_counts)
        ),
        "runtime": _describe_change(space.get("runtime"), resolved.runtime),
        "images": _describe_change(manifest.get("data_fingerprint"), fingerprint),
        "parts of the images": other_parts(run.read_json("split.json"), resolved.images),
    }
    for what, rows in changes.items():
        if not rows:
            continue
        names = list(dict.fromkeys(rows))
        shown = ", ".join(names[:SHOWN])
        if len(names) > SHOWN:
            shown += f" and {len(names) - SHOWN} more"
        raise UsageError(f"--resume: the {what} of '{run.path}' have changed: {shown}", START_ANEW)
    return tuple(by_name[name] for name in names)


def require_first_weights(run: RunFolder, candidates: Candidates) -> None:
    """Refuse to resume with other weights than the run began with. A new run is never refused."""
    manifest = run.read_json("manifest.json")
    began_with = read_section(manifest, "weights")
    for name in read_section(manifest, "space").get("cards") or ():
        if name not in candidates.weights:
            why = candidates.missing.get(name, "it is no longer a candidate")
            raise UsageError(
                f"--resume: the weights of {name} are no longer available: {why}", START_ANEW
            )
        # Random weights have text in place of a hash, and a fixed seed,
        # so they cannot have changed.
        then = began_with.get(name)
        file = candidates.weights[name]
        if isinstance(then, dict) and (file is None or file.sha256 != then.get("sha256")):
            raise UsageError(
                f"--resume: the weights of {name} have changed since the run began", START_ANEW
            )


def other_parts(then: Mapping[str, object], images: Images | None) -> list[str]:
    """Return the parts of the split that hold other images than then:
    their figures cannot be compared.
    """
    if images is None or not then:
        return []
    now = images.split.to_json(images.dataset)
    return [part for part in SplitPart if _list_hashes(then.get(part)) != _list_hashes(now[part])]


def _list_hashes(rows: object) -> list[str]:
    if isinstance(rows, list):
        return [str(row.get("sha256")) for row in rows if isinstance(row, dict)]
    return []


def _describe_change(then: object, now: object) -> list[str]:
    """Return the two values of a part of the question if they differ, else nothing."""
    if then != now:
        return [f"{_shorten(then)} then, {_shorten(now)} now"]
    return []


def _shorten(value: object) -> str:
    """Return a value as text. Of a long one, such as a hash, its start tells it from another."""
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value or "none")
    if len(text) > 60:
        return f"{text[:12]}..."
    return text or "none"
