"""A model learns from more images: which of them judge, and when the new file ships."""

import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from PIL import Image
from skimage import data

from advisor.api import _updates as module
from advisor.api._updates import NoNewFile, Update, compare_answers, update
from advisor.core import UsageError
from advisor.engine import LoadedRun
from advisor.engine._growth import CLAIMING_PARTS, FileAnswer, GrownImage, LabelSet
from advisor.engine._history.merged_images import MergedImages, merge_images as merge_all
from advisor.store import RunFolder
from advisor.tasks.classification._growth import ClassifierGrowth
from tests.builders import must_fail
from tests.makers.searches import Searched
from tests.run_folders import aged, write_run
from tests.tables import with_cases

load_run = LoadedRun.load
GROWTH = ClassifierGrowth()
merge_images = partial(merge_all, task_growth=GROWTH)


def judged(old: Sequence[str], new: Sequence[str], before: str, after: str, added: tuple[str, ...] = ()) -> Update:
    """Compare two files by their answers, a letter for each image of the old and the new hold-out."""
    images = [
        GrownImage(Path(f"{number}.jpg"), LabelSet(frozenset((label,))), CLAIMING_PARTS[0], new=is_new)
        for is_new, labels in ((False, old), (True, new))
        for number, label in enumerate(labels)
    ]
    merged = MergedImages(tuple(images), added, 0, 0, ())
    answers = ([FileAnswer({label: 1.0}) for label in labels.split()] for labels in (before, after))
    return compare_answers("run", "runs/new", merged, GROWTH, *answers)


@with_cases
def test_the_new_file_ships_if_it_gains_and_the_old_images_show_no_loss(
    before: dict[str, int], after: dict[str, int], ship: bool, reason: str
) -> None:
    texts = ("".join(f"{label} " * count for label, count in answers.items()) for answers in (before, after))
    answer = judged(["a"] * 40, ["a"] * 20, *texts)
    assert (answer.ship, reason in answer.reason) == (ship, True), answer.reason


@pytest.mark.parametrize(("after", "ship"), [("c " * 5, True), ("c " + "b " * 4, False)])
def test_a_new_class_that_few_images_judge_ships_if_it_is_recognised_without_loss(after: str, ship: bool) -> None:
    old = ["a", "b"] * 20
    known = " ".join(old)
    assert judged(old, ["c"] * 5, f"{known} {'a ' * 5}", f"{known} {after}", ("c",)).ship is ship
    lost = "c " * 12 + " ".join(old[12:])
    assert not judged(old, ["c"] * 5, f"{known} {'a ' * 5}", f"{lost} {after}", ("c",)).ship


def test_classes_that_got_worse_are_named_with_images() -> None:
    answer = judged(["a", "a", "b"], [], "a a a", "a b b")
    assert [(row.label, row.before, row.after, row.images, row.examples) for row in answer.worse] == [
        ("a", 2, 1, 2, ("1.jpg",))
    ]
    assert "class 'a' got worse on the old hold-out: 2, then 1 of 2 right, such as 1.jpg" in answer.lines


@pytest.mark.parametrize(("after", "name"), [("a ", "grown"), ("b ", "shipped"), (None, "shipped")])
def test_latest_leads_to_the_new_run_only_if_its_file_ships(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_images: Searched, after: str | None, name: str
) -> None:
    decision = SimpleNamespace(pick=after, reason="")
    answer = judged(["a"] * 20, [], "b " * 20, (after or "b ") * 20)
    write_run(tmp_path, name="shipped")
    for function, result in {"merge_images": MergedImages((), (), 0, 0, ()), "judge_runs": answer}.items():
        monkeypatch.setattr(module, function, Mock(return_value=result))
    grow = Mock(side_effect=lambda **_: SimpleNamespace(path=write_run(tmp_path, name="grown").path, decision=decision))
    monkeypatch.setattr(module, "search", grow)
    with nullcontext() if after else pytest.raises(NoNewFile, match="ended without a file"):
        update(with_images.run.path, "more", out=tmp_path)
    assert (tmp_path / "latest").resolve().name.endswith(name)


def test_a_search_that_does_not_begin_leaves_no_manifest_and_one_that_began_keeps_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_images: Searched
) -> None:
    monkeypatch.setattr(module, "merge_images", Mock(return_value=MergedImages((), (), 0, 0, ())))
    monkeypatch.setattr(module, "search", Mock(side_effect=UsageError("no weights", "fetch them")))
    must_fail(UsageError, "no weights", update, with_images.run.path, "more", out=tmp_path / "new")
    assert not list((tmp_path / "new").iterdir())

    def end_early(**asked: str) -> None:
        write_run(tmp_path, name=f"run{len(list(tmp_path.glob('*.csv')))}")
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "search", end_early)
    for manifests in (1, 2):  # The second does not write over the first.
        must_fail(KeyboardInterrupt, "", update, with_images.run.path, "more", out=tmp_path)
        assert len(list(tmp_path.glob("*.csv"))) == manifests
    monkeypatch.setattr(module, "merge_images", Mock(side_effect=AssertionError))
    must_fail(UsageError, "--out: ", update, with_images.run.path, "more", out=__file__)
    must_fail(UsageError, "--time-limit: ", update, with_images.run.path, "more", time_limit="soon")
    monkeypatch.setattr(module, "recipe_of", lambda _: SimpleNamespace(tunes_backbone=True))
    monkeypatch.setattr("advisor.core._errors.find_spec", lambda _: None)
    must_fail(UsageError, "needs TensorFlow", update, with_images.run.path, "more")


def test_images_are_read_with_their_one_class(tmp_path: Path, with_images: Searched) -> None:
    split = with_images.run.read_json("split.json")
    learnt = [row["path"] for row in split["train"] if row["class"] == "astronaut"]
    folder = tmp_path / "more"
    for name, path in (("astronaut", learnt[0]), ("rocket 'é'", learnt[1])):
        (folder / name).mkdir(parents=True)
        shutil.copy(load_run(with_images.run).images_folder / path, folder / name / Path(path).name)
    (folder / "coins").mkdir()
    coins = Image.fromarray(data.coins()).convert("RGB")
    for number in range(20):
        box = (17 * number, 11 * number, 17 * number + 60, 11 * number + 60)
        coins.crop(box).resize((96, 96)).save(folder / "coins" / f"{number}.jpg")
    merged = merge_images(load_run(with_images.run), folder)
    assert (merged.new_labels, merged.known, merged.added) == (("coins",), 1, 20 - len(merged.list_holdout(new=True)))
    assert [path.name for path in merged.corrected] == [Path(learnt[1]).name]
    shutil.copytree(with_images.run.path, tmp_path / "old")
    aged(old_run := RunFolder.open(tmp_path / "old"))
    assert merge_images(load_run(old_run), folder) == merged, "the draw is the same each time, also of an older version"
    old_run.write_json("dataset.json", {**old_run.read_json("dataset.json"), "folder": str(folder)})
    must_fail(UsageError, "are gone or changed, such as", merge_images, load_run(old_run), folder)
    old_run.write_request({**old_run.read_request(), "no_option": "of today"})
    must_fail(UsageError, "is damaged or of another version", update, old_run.path, folder)
