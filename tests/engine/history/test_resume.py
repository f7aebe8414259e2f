"""A run is resumed only with the search space that it began with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.catalog.catalogue import load_catalogue
from advisor.compression.recipes import RECIPES
from advisor.core.errors import UsageError
from advisor.downloads.files import WeightsFile
from advisor.engine.history.manifest import describe_run, same_cards, same_weights, write_manifest
from advisor.engine.question import resolve
from advisor.engine.space.candidates import Candidates
from advisor.engine.space.resolved import Resolved, resolve_cards
from advisor.store import RunFolder

NAMES = ("mobilenet_v1_0.25_224", "squeezenet_1.1_227")
RECIPE_NAMES = ("float32", "int8")

Edit = Callable[[dict[str, Any]], None]


def _weights(path: Path, digit: str) -> WeightsFile:
    return WeightsFile(path, digit * 64, "mirror", "", "keras", "")


@pytest.fixture(scope="module")
def resolved() -> Resolved:
    catalogue = load_catalogue()
    recipes = {recipe.name: recipe for recipe in RECIPES if recipe.name in RECIPE_NAMES}
    found = resolve_cards(resolve({"candidates": NAMES, "threads": [1]}))
    return replace(found, recipes=recipes, cards=tuple(catalogue.card(name) for name in NAMES))


@pytest.fixture
def candidates(resolved: Resolved, tmp_path: Path) -> Candidates:
    weights = {name: _weights(tmp_path / name, digit) for name, digit in zip(NAMES, "12", strict=True)}
    return Candidates(resolved.cards, weights, {})


@pytest.fixture
def run(resolved: Resolved, candidates: Candidates, tmp_path: Path) -> RunFolder:
    """A run that has just chosen its search space."""
    folder = RunFolder.create(tmp_path / "runs", "run")
    write_manifest(folder, describe_run(resolved, candidates, resolved.plan(candidates)))
    return folder


def _edit(run: RunFolder, change: Edit) -> None:
    manifest = run.read_json("manifest.json")
    change(manifest)
    run.write_json("manifest.json", manifest)


def test_an_unchanged_space_is_accepted(run: RunFolder, resolved: Resolved, candidates: Candidates) -> None:
    assert same_cards(run, resolved) == resolved.cards
    same_weights(run, candidates)


def test_cards_that_are_new_since_are_left_out(run: RunFolder, resolved: Resolved) -> None:
    more = (load_catalogue().card("mobilenet_v2_1.0_224"), *reversed(resolved.cards))
    assert same_cards(run, replace(resolved, cards=more)) == resolved.cards


def test_a_run_that_was_killed_before_it_chose_takes_what_is_there_now(
    resolved: Resolved, candidates: Candidates, tmp_path: Path
) -> None:
    folder = RunFolder.create(tmp_path / "runs", "killed")
    assert same_cards(folder, resolved) == resolved.cards
    same_weights(folder, candidates)


def _space(**entries: object) -> Edit:
    return lambda manifest: manifest["space"].update(entries)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_space(cards=["gone"]), "the candidates of .* have changed: gone"),
        (lambda manifest: manifest["cards"].update({NAMES[0]: "x"}), f"the catalogue's entries of .*: {NAMES[0]}$"),
        (_space(recipes={"float32": 99}), r"the compression recipes of .*float32 \(version 99\).*int8"),
        (_space(recipes=None), "the compression recipes of"),
        (_space(training=["head"]), "the training recipes of .*: head then, none now"),
        (_space(threads=[1, 7]), "the thread counts of .*: 1, 7 then, 1 now"),
        (_space(runtime="ai-edge-litert==0.0.1"), "the runtime of .*0.0.1"),
        (
            lambda manifest: manifest.update(data_fingerprint="f" * 64),
            "the images of .*: ffffffffffff... then, none now",
        ),
    ],
)
def test_another_space_is_refused(run: RunFolder, resolved: Resolved, change: Edit, words: str) -> None:
    _edit(run, change)
    with pytest.raises(UsageError, match=f"--resume: {words}") as refused:
        same_cards(run, resolved)
    assert "start a new run" in refused.value.hint


def test_other_weights_are_refused(run: RunFolder, candidates: Candidates, tmp_path: Path) -> None:
    other = {**candidates.weights, NAMES[1]: _weights(tmp_path / "other", "3")}
    with pytest.raises(UsageError, match=f"the weights of {NAMES[1]} have changed since the run began"):
        same_weights(run, replace(candidates, weights=other))


def test_weights_that_are_gone_are_refused_with_the_reason(run: RunFolder, candidates: Candidates) -> None:
    left = {NAMES[0]: candidates.weights[NAMES[0]]}
    with pytest.raises(UsageError, match=f"the weights of {NAMES[1]} are no longer available: the mirror is down"):
        same_weights(run, Candidates(candidates.cards, left, {NAMES[1]: "the mirror is down"}))
