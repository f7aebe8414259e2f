"""The check of labels at the end of a search: when it runs, by which features, and what it leaves in the run."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from advisor.catalog import Card, Catalogue
from advisor.core import OnAllImages, Status, TrainingName
from advisor.datasets import Dataset, LabelledImage
from advisor.datasets._dataset import compute_fingerprint
from advisor.datasets._split import draw_split
from advisor.engine import Execution, Images, Machine, Purpose, Role, Stage, StageName, Workload
from advisor.engine._afterwards import SHARE, affordable_s, find_best_features, when_answered
from advisor.engine._history.label_check import LABELS, read_label_check
from advisor.engine._pipeline.materials import Artefact
from advisor.engine._pipeline.stage import StageAborted
from advisor.engine._pipeline.walker import Workers
from advisor.isolation import PoolKind
from advisor.store import RunFolder
from advisor.training import Suspect
from tests.builders import evaluation, present
from tests.engine.pipeline.walking import materials
from tests.makers.searches import SMALLEST
from tests.run_folders import write_run
from tests.tables import with_cases

CARDS = Catalogue.load()
LITE, V2 = "efficientnet_lite0_224", "mobilenet_v2_1.0_224"
CLASSES = ("glass", "metal")


@with_cases
def test_the_check_takes_a_small_share_of_the_time_left(taken_s: float, limit_s: float | None, left_s: float) -> None:
    assert affordable_s(taken_s, limit_s) == pytest.approx(left_s)
    assert affordable_s(taken_s, limit_s) <= SHARE * max(taken_s, limit_s or 0.0)


def test_the_features_are_those_of_the_most_accurate_head() -> None:
    head, tuned = replace(evaluation(LITE, accuracy=80)), evaluation(V2, accuracy=95)
    tuned = replace(tuned, configuration=replace(tuned.configuration, training="finetune_cached"))
    head = replace(head, configuration=replace(head.configuration, training="head"))
    worse = replace(head, configuration=replace(head.configuration, card=SMALLEST), accuracy=None)
    found = find_best_features([worse, tuned, head], CARDS)
    assert found.name == LITE
    assert find_best_features([tuned], CARDS) == CARDS[V2]
    quick_head = replace(head, configuration=replace(head.configuration, training="head_subset"))
    assert find_best_features([replace(head, status=Status.FAILED), quick_head], CARDS) is None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"card": 1, "images": 2, "found": []}', '{"card": "a"}'])
def test_a_missing_or_damaged_document_says_nothing(tmp_path: Path, content: str) -> None:
    run = write_run(tmp_path)
    assert read_label_check(run) is None
    (run.path / LABELS).write_text(content)
    assert read_label_check(run) is None


def test_what_cannot_be_checked_is_left_out(tmp_path: Path) -> None:
    detector = judged(tmp_path / "cache", finds, task="object-detection")
    few = judged(tmp_path / "cache", finds, images=8)
    for place, scorer in enumerate((None, detector, few)):
        assert checked(scorer, tmp_path / f"{place}", 1000) is None


def judged(cache: Path, work: Callable[[], Awaitable[object]], images: int = 40, **asked: Any) -> Any:
    """Return the part of a scorer that the check needs: ``work`` runs instead of its stage."""
    files = [LabelledImage(Path(f"/set/{n}.jpg"), n % 2, str(n)) for n in range(images)]
    dataset = Dataset(Path("/set"), CLASSES, tuple(files), (), compute_fingerprint(CLASSES, files))
    given = materials(cache, Images(dataset, draw_split(dataset, 0)), weights={SMALLEST: None})
    given = replace(given, question=replace(given.question, **asked))
    return SimpleNamespace(
        cards=CARDS, walker=SimpleNamespace(materials=given, run=lambda _stage: work(), has=lambda _stage: False)
    )


def checked(scorer: Any, tmp_path: Path, taken_s: float, limit_s: float | None = None, stopped: bool = False) -> Any:
    row = evaluation(SMALLEST, accuracy=80)
    run = write_run(tmp_path, [replace(row, configuration=replace(row.configuration, training="head"))])

    async def check() -> None:
        stopping = asyncio.Event()
        if stopped:
            stopping.set()
        await when_answered(scorer, run, stopping, Execution(time_limit_s=limit_s), time.monotonic() - taken_s, print)

    asyncio.run(check())
    return read_label_check(run)


async def finds() -> tuple[tuple[Suspect, ...], tuple[()]]:
    return (Suspect(2, 1, 0.012, 0.9),), ()


async def hangs() -> None:
    await asyncio.sleep(600)


async def fails() -> None:
    raise StageAborted(Status.FAILED, StageName.LABELS, "the disk is full")


def test_what_was_found_has_paths_and_classes(tmp_path: Path) -> None:
    scorer = judged(tmp_path / "cache", finds)
    part = scorer.walker.materials.part(Role.LEARNT)
    found = checked(scorer, tmp_path, 1000)
    assert (found.card, found.images) == (SMALLEST, len(part.paths))
    (one,) = found.found
    assert (one.path, one.given, one.better) == (part.paths[2].name, 0.012, 0.9)
    assert (one.label, one.suggested) == (CLASSES[part.labels[2]], "metal")


@with_cases
def test_a_check_without_time_is_left_out(tmp_path: Path, how: dict[str, Any]) -> None:
    assert checked(judged(tmp_path / "cache", finds), tmp_path, **how) is None


async def full() -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("work", [hangs, fails, full])
def test_a_check_that_takes_longer_or_fails_leaves_the_answer(
    tmp_path: Path, work: Callable[[], Awaitable[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stage, "cost_s", 0.0)
    assert checked(judged(tmp_path / "cache", work), tmp_path, 1) is None


def shipped(
    tmp_path: Path, ours: Sequence[int], cards: Mapping[str, Card] = CARDS, limit_s: float | None = None, **changes: Any
) -> tuple[RunFolder, OnAllImages | None]:
    """Learn from all images after a search; ``ours`` are the answers of the new file on validation."""
    scorer = judged(tmp_path / "cache", hangs, images=80)
    images, made = scorer.walker.materials.images, tmp_path / "made.tflite"
    made.write_bytes(b"learnt from all")
    own = images.part(Role.VALIDATION).labels
    answers = {Purpose.ALL: np.eye(2)[list(ours)], "": np.eye(2)[list(own)]}

    async def run(stage: Stage[Any]) -> object:
        if stage.name is StageName.LABELS:
            return await finds()
        if stage.name is not StageName.SCORE:
            return Artefact.at(made, "f" * 64)
        np.save(tmp_path / f"answers{stage.scope.purpose}.npy", answers[stage.scope.purpose])
        return tmp_path / f"answers{stage.scope.purpose}.npy"

    scorer.walker.run, scorer.walker.has = run, changes.get("has", lambda _stage: changes.get("known", True))
    scorer.walker.workers = Workers(Machine(1), {})
    scorer.cards, scorer.holdout_images = cards, changes.get("held", len(images.split.holdout))
    scorer.workload = Workload((TrainingName.HEAD, TrainingName.FINETUNE_CACHED), ("float32",), images.counts)
    row = evaluation(SMALLEST, accuracy=80)
    row = replace(row, configuration=replace(row.configuration, training=changes.get("training", TrainingName.HEAD)))
    folder = write_run(tmp_path, [row])
    asked = Execution(ship_on="all", time_limit_s=limit_s, executor=changes.get("executor", "local"))
    asyncio.run(when_answered(scorer, folder, asyncio.Event(), asked, time.monotonic() - 10, print))
    return folder, folder.evaluations()[0].on_all


def right(tmp_path: Path) -> list[int]:
    return list(judged(tmp_path / "cache", hangs, images=80).walker.materials.part(Role.VALIDATION).labels)


def test_the_pick_gets_a_file_that_learns_from_all_images_beside_the_judged_one(tmp_path: Path) -> None:
    folder, made = shipped(tmp_path, right(tmp_path))
    assert (made.images, made.same, made.reason) == (80, 1.0, "")
    assert made.images - made.more < 80
    assert (folder.path / made.file).read_bytes() == b"learnt from all"
    (row,) = folder.evaluations()
    assert row.artefact != made.file
    assert row.artefact_sha256 != made.sha256 == "f" * 64


def test_a_file_that_forgot_what_it_learnt_does_not_ship(tmp_path: Path) -> None:
    answers = right(tmp_path)
    assert len(answers) > 4, "as many wrong answers are more than chance"
    _, made = shipped(tmp_path, [1 - each for each in answers])
    assert made.file == ""
    assert "points fewer right answers on validation images, which both files have learnt from" in made.reason
    _, chance = shipped(tmp_path, [1 - answers[0], *answers[1:]])
    assert present(chance).file


def only_all_is_missing(stage: Stage[Any]) -> bool:
    return stage.scope.purpose != Purpose.ALL


def test_a_network_is_trained_by_a_pool_that_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = list[str]()
    pool = SimpleNamespace(close=lambda: ended.append("closed"))
    monkeypatch.setattr(PoolKind, "open", lambda _kind, _log: pool)
    _, made = shipped(tmp_path, right(tmp_path), training=TrainingName.FINETUNE_CACHED, has=only_all_is_missing)
    assert present(made).file
    assert ended == ["closed"]


@with_cases
def test_the_reason_says_why_no_file_learns_from_all_images(tmp_path: Path, how: dict[str, Any], reason: str) -> None:
    # Only of a search with other executors, everything but the network of all images is in the cache.
    has = {"has": only_all_is_missing} if "executor" in how else {}
    folder, made = shipped(tmp_path, right(tmp_path), **how, **has)
    assert made.reason.startswith(reason)
    assert made.file == ""
    assert not list(folder.path.glob("artifacts/*-all.tflite"))
