"""Find the parts of a question before anything is spent: how many images its time limit leaves time for."""

import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from advisor.core import UsageError, WeightsError, install_extra
from advisor.engine import preview, resolve
from advisor.engine._pipeline.images import LARGE
from advisor.engine._space.failed_downloads import read_failures
from advisor.engine._space.image_limit import within_time_limit
from advisor.engine._space.resolving import resolve_cards, resolve_parts
from advisor.engine._space.weights import find_weights
from tests.datasets.folders import make

pytestmark = pytest.mark.usefixtures("own_folders")  # no earlier search has shown how fast this machine is


def most_images(**options: object) -> int | None:
    return within_time_limit(resolve_cards(resolve({"data": "photos", "workers": 2, **options}))).question.most_images


def test_a_longer_time_limit_and_a_lighter_network_read_more_images() -> None:
    assert most_images() is None
    half, one, two = (most_images(time_limit=limit) or 0 for limit in ("30min", "1h", "2h"))
    assert LARGE < half < one < two
    assert two == pytest.approx(2 * one, rel=0.1)
    assert most_images(time_limit="1min") == LARGE
    assert most_images(time_limit="5min", task="object-detection") == LARGE
    names = ("inception_v3*", "mobilenet_v1_0.25*")
    heavy, light = (most_images(time_limit="1h", candidates=[name]) or 0 for name in names)
    assert heavy < light / 10


def test_a_resumed_run_reads_as_many_images_as_before() -> None:
    request = resolve({"data": "photos", "time_limit": "1h"})
    for before in (0, 700):
        asked = replace(request, question=replace(request.question, most_images=before))
        assert within_time_limit(resolve_cards(asked)).question.most_images == before


def test_the_answer_says_how_many_images_are_read(tmp_path: Path) -> None:
    root, said = make(tmp_path / "data", cat=80, dog=40), list[str]()
    request = resolve({"data": str(root)})
    some = replace(request, question=replace(request.question, most_images=60))
    images = resolve_parts(some, said.append).images
    assert images.counts["train"] + images.counts["validation"] + images.counts["holdout"] == 60
    (note,) = [each for each in images.notes if "are read" in each]
    assert note.startswith("60 of 120 images are read, in proportion to the classes")
    assert note in said


def test_a_plan_leaves_out_what_could_not_be_downloaded_unless_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, *_ = (card.card for card in preview(resolve({})).cards)
    monkeypatch.setattr("advisor.catalog.fetch_weights", Mock(side_effect=WeightsError("none")))
    named = resolve({"candidates": [first]})
    find_weights(resolve_cards(named), lambda _: None)
    plan = preview(resolve({}))
    assert plan.cards[0].card == second
    assert plan.left_out[first].startswith("could not be downloaded (last attempt ")
    assert preview(named).cards[0].card == first
    monkeypatch.setattr("advisor.catalog.fetch_weights", lambda *_: None)
    find_weights(resolve_cards(named), lambda _: None)
    assert read_failures() == {}


def test_a_question_is_resolved_without_spending_anything(tmp_path: Path) -> None:
    said: list[str] = []
    request = resolve({"candidates": ["squeezenet_1.1_227"], "compressions": ["int8"], "out": str(tmp_path / "runs")})
    found = resolve_parts(request, said.append)
    assert [card.name for card in found.cards] == ["squeezenet_1.1_227"]
    assert list(found.recipes) == ["float32", "int8"]
    assert found.images is None
    assert not (tmp_path / "runs").exists()
    with pytest.raises(UsageError, match=r"squeezenet_1\.1_22.*squeezenet_1\.1_227"):
        resolve_parts(resolve({"candidates": ["squeezenet_1.1_22"]}), said.append)


def test_images_inside_files_are_not_sent_to_other_machines(tmp_path: Path) -> None:
    folder, file = make(tmp_path / "photos", cat=20, dog=20), tmp_path / "photos.zip"
    with zipfile.ZipFile(file, "w") as archive:
        for path in sorted(folder.rglob("*.jpg")):
            archive.write(path, path.relative_to(folder))
    asked = {"data": str(file), "candidates": ["squeezenet_1.1_227"], "executor": "ray"}
    with pytest.raises(UsageError, match=f"images inside '{file}' cannot be sent to other machines"):
        resolve_parts(resolve(asked), lambda _: None)
    shared = resolve_parts(resolve({**asked, "shared_folder": str(tmp_path)}), lambda _: None)
    assert len(shared.images.dataset.images) == 40


@pytest.mark.parametrize("task", ["object-detection", "object-counting"])
def test_boxes_without_the_package_name_the_extra(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pycocotools", None)
    with pytest.raises(UsageError, match="pycocotools, which is not installed") as raised:
        resolve_parts(resolve({"task": task, "data": str(tmp_path)}), lambda _: None)
    assert raised.value.hint == install_extra("detection")
