"""Refuse to resume a run whose candidates, recipes or images have changed since it began."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from advisor.catalog.cards import Card
from advisor.compression.recipes import Recipe
from advisor.core.errors import UsageError
from advisor.datasets.split import PARTS
from advisor.engine.pipeline.images import Images
from advisor.engine.question import Question
from advisor.engine.space.candidates import Candidates, card_hash, runtime_version, trainings_of
from advisor.engine.space.plan import Plan
from advisor.store import RunFolder

START_ANEW = "start a new run: unchanged work is taken from the cache"


def space_of(plan: Plan, recipes: Mapping[str, Recipe]) -> dict[str, Any]:
    """Return the search space for the manifest."""
    return {
        "cards": [card.name for card in plan.cards],
        "recipes": {name: recipes[name].version for name in plan.recipes},
        "threads": list(plan.threads),
        "training": list(plan.trainings),
        "runtime": plan.runtime,
    }


def same_cards(
    run: RunFolder, question: Question, cards: Sequence[Card], recipes: Mapping[str, Recipe], images: Images | None
) -> tuple[Card, ...]:
    """Return the cards that the run began with.

    Args:
        run: the run to resume.
        question: its question.
        cards: the cards that the question selects now; weights and catalogues may be new since.
        recipes: the recipes that it selects now.
        images: the images as they are now.

    Raises:
        UsageError: a card, a recipe, the images, the thread counts or the runtime have changed.
    """
    manifest = run.read_json("manifest.json")
    space = manifest.get("space")
    if not isinstance(space, dict):
        return tuple(cards)  # the run was killed before it chose anything
    found = {card.name: card for card in cards}
    hashes = manifest.get("cards") or {}
    names = space.get("cards", [])
    now = {name: recipe.version for name, recipe in recipes.items()}
    fingerprint = images.dataset.fingerprint if images else ""
    differences = {
        "candidates": [name for name in names if name not in found],
        "catalogue's entries": [name for name in names if name in found and hashes.get(name) != card_hash(found[name])],
        "compression recipes": sorted(set(now.items()) ^ set((space.get("recipes") or {}).items())),
        "training recipes": _other(space.get("training"), list(trainings_of(question, images))),
        "thread counts": _other(space.get("threads"), list(question.thread_counts)),
        "runtime": _other(space.get("runtime"), runtime_version()),
        "images": _other(manifest.get("data_fingerprint"), fingerprint),
        "parts of the images": _other_parts(run.read_json("split.json"), images),
    }
    for what, rows in differences.items():
        if rows:
            raise UsageError(f"--resume: the {what} of '{run.path}' have changed: {_shown(rows)}", START_ANEW)
    return tuple(found[name] for name in names)


def same_weights(run: RunFolder, candidates: Candidates) -> None:
    """Refuse to resume with other weights than the run began with. A new run is never refused.

    Raises:
        UsageError: the weights have changed, or are no longer available.
    """
    manifest = run.read_json("manifest.json")
    names = manifest["space"]["cards"] if isinstance(manifest.get("space"), dict) else ()
    for name in names:
        then = manifest.get("weights", {}).get(name)
        if name not in candidates.weights:
            why = candidates.missing.get(name, "it is no longer a candidate")
            raise UsageError(f"--resume: the weights of {name} are no longer available: {why}", START_ANEW)
        file = candidates.weights[name]
        if isinstance(then, dict) and (file is None or file.sha256 != then.get("sha256")):
            raise UsageError(f"--resume: the weights of {name} have changed since the run began", START_ANEW)


def _other_parts(then: Mapping[str, Any], images: Images | None) -> list[str]:
    """Return the parts of the split that hold other images than then: their figures cannot be compared."""
    if images is None or not then:
        return []
    now = images.split.to_json(images.dataset)
    return [part for part in PARTS if _hashes(then.get(part)) != _hashes(now[part])]


def _hashes(rows: Any) -> list[str]:
    return [str(row.get("sha256")) for row in rows or () if isinstance(row, dict)]


def _other(then: Any, now: Any) -> list[str]:
    return [f"{_short(then)} then, {_short(now)} now"] if then != now else []


def _short(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"{text[:12]}..." if len(text) > 60 else text or "none"


def _shown(rows: Sequence[Any]) -> str:
    names = [f"{row[0]} (version {row[1]})" if isinstance(row, tuple) else str(row) for row in rows]
    return ", ".join(dict.fromkeys(names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
