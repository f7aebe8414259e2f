"""Large sets: a head of some pictures first, then of all for the cards that can reach the front."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog.catalogue import load_catalogue
from advisor.core.evaluation import Status
from advisor.datasets.dataset import Dataset, LabelledImage, fingerprint
from advisor.datasets.split import split
from advisor.engine.decide import decide_run
from advisor.engine.pipeline import images as images_module
from advisor.engine.pipeline.images import Images, Role
from advisor.engine.progress import Progress
from advisor.engine.question import resolve
from advisor.engine.run import run_search
from advisor.engine.space import images as reading
from advisor.engine.space.candidates import Candidates
from advisor.engine.space.resolved import Resolved, resolve_cards
from tests.engine.conftest import SMALLEST


def _images(counts: list[int], subset: int = 100) -> Images:
    root, names = Path("data"), tuple(f"class {label}" for label in range(len(counts)))
    made = tuple(
        LabelledImage(root / names[label] / f"{number}.jpg", label, f"{label}-{number}")
        for label, count in enumerate(counts)
        for number in range(count)
    )
    dataset = Dataset(root, names, made, (), fingerprint(names, made))
    return Images(dataset, split(dataset, 0), subset_images=subset)


def _asked(images: Images) -> Resolved:
    return replace(resolve_cards(resolve({"data": "x", "training": ["head"]})), images=images)


@given(st.lists(st.integers(8, 400), min_size=2, max_size=5), st.integers(10, 300))
def test_some_images_are_of_the_training_part_and_have_every_class(counts: list[int], wanted: int) -> None:
    images = _images(counts, wanted)
    chosen, train = images.part(Role.SUBSET), images.part(Role.TRAIN)
    assert set(chosen.indices) <= set(train.indices)
    assert set(chosen.labels) == set(range(len(counts)))
    assert len(chosen.indices) <= wanted + len(counts)
    share = min(1.0, wanted / len(train.indices))
    for label in range(len(counts)):
        assert chosen.labels.count(label) == pytest.approx(share * train.labels.count(label), abs=2)


@given(st.lists(st.integers(8, 60), min_size=2, max_size=5), st.integers(10, 30))
def test_the_plan_reads_as_many_images_as_the_first_look_has(counts: list[int], wanted: int) -> None:
    """Classes that a share leaves out have one image each, so there may be more images than were asked for."""
    images = _images(counts, wanted)
    chosen = Candidates((load_catalogue()[SMALLEST],), {}, {})
    plan = _asked(images).plan(chosen)
    assert plan.workload.images[Role.SUBSET] == len(images.part(Role.SUBSET).indices)


def test_a_small_set_needs_no_first_look() -> None:
    assert _asked(_images([30, 30])).trainings == ("head",)


def test_a_card_that_passes_the_first_look_is_answered_by_all_images(
    warm_cache: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(warm_cache))
    monkeypatch.setattr(images_module, "LARGE", 20)
    monkeypatch.setattr(reading, "SUBSET_IMAGES", 12)
    options = {
        "data": str(photos),
        "candidates": [SMALLEST],
        "compressions": ["int8"],
        "threads": [1],
        "training": ["head"],
    }
    run = run_search(resolve({**options, "out": str(tmp_path)}), Progress()).run
    rows = {(e.configuration.training, e.configuration.compression): e for e in run.evaluations()}
    assert set(rows) == {("head_subset", "float32"), ("head", "float32"), ("head", "int8")}
    first = rows["head_subset", "float32"]
    assert first.status is Status.OK, first.reason
    assert first.holdout_accuracy is None
    assert first.accuracy is not None
    assert first.accuracy.n == len(run.read_json("split.json")["validation"])
    decision = decide_run(run, run.evaluations(), resolve(options).question).decision
    assert decision.pick is not None
    assert {e.configuration.training for e in (decision.pick, *decision.front)} == {"head"}
    assert run.read_json("manifest.json")["space"]["training"] == ["head_subset", "head"]
