"""A head for boxes, trained on the maps of a small backbone and run by LiteRT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advisor.core.errors import StageError
from advisor.measurement.average_precision import score
from advisor.measurement.detection import Detections, Detector
from advisor.tflite.postprocess import Suppression, append_postprocess, cut_postprocess, put_back
from advisor.training.detection import maps as maps_module
from advisor.training.detection.boxes import box_lesson
from advisor.training.detection.fit import Fitting, fit_head
from advisor.training.detection.maps import Boxed, KeptMaps, keep_maps
from advisor.training.detection.network import joined
from advisor.training.finetune.network import flatbuffer
from tests.training.detection.squares import LEARNT, VIEW
from tests.training.nets import WIDE

pytestmark = pytest.mark.integration


def test_maps_are_kept_for_each_image_and_its_changed_copies(kept: KeptMaps) -> None:
    assert kept.images == LEARNT
    assert kept.copies == maps_module.MOST_COPIES
    assert [len(level) for level in kept.levels] == [LEARNT * (1 + kept.copies)] * len(kept.levels)
    assert not np.array_equal(kept.levels[0][0], kept.levels[0][LEARNT])
    assert not np.array_equal(kept.objects[0].boxes, kept.objects[LEARNT].boxes)


def test_there_are_as_many_copies_as_fit(
    boxed: Boxed, backbone: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = 2 * sum(int(np.prod(output.shape[1:])) for output in backbone.outputs)
    few = Boxed(boxed.paths[:2], boxed.objects[:2])
    monkeypatch.setattr(maps_module, "MOST_BYTES", 5 * whole)
    assert keep_maps(backbone, few, VIEW, tmp_path, seed=0).copies == 1
    monkeypatch.setattr(maps_module, "MOST_BYTES", whole)
    with pytest.raises(StageError, match="the maps of 2 images take"):
        keep_maps(backbone, few, VIEW, tmp_path, seed=0)


def test_a_head_learns_to_find_objects_of_two_classes(
    boxed: Boxed, backbone: Any, kept: KeptMaps, tmp_path: Path
) -> None:
    learnt = fit_head(box_lesson, kept, 2, Fitting(epochs=40))
    assert learnt.anchors is not None
    data = append_postprocess(flatbuffer(joined(backbone, learnt.model)), learnt.anchors.boxes, Suppression())
    path, again = tmp_path / "detector.tflite", tmp_path / "again.tflite"
    path.write_bytes(data)
    again.write_bytes(put_back(*cut_postprocess(data)))
    found, same = (
        [run(image) for image in boxed.paths[LEARNT:]] for run in (Detector(path, VIEW), Detector(again, VIEW))
    )
    for one, other in zip(found, same, strict=True):
        assert one.boxes.tolist() == other.boxes.tolist()
        assert one.labels.tolist() == other.labels.tolist()
        assert one.scores.tolist() == other.scores.tolist()
    true = [Detections(one.boxes, one.labels, np.ones(1, np.float32)) for one in boxed.objects[LEARNT:]]
    reached = score(true, found, [(WIDE, WIDE)] * len(true), 2)
    assert reached.half.value > 0.8


@pytest.mark.slow
def test_equal_maps_and_seeds_give_equal_heads(kept: KeptMaps) -> None:
    first, second = (fit_head(box_lesson, kept, 2, Fitting(epochs=2)).model.get_weights() for _ in range(2))
    assert all(np.array_equal(one, other) for one, other in zip(first, second, strict=True))


@pytest.mark.slow
def test_a_rate_that_is_too_high_is_an_error(kept: KeptMaps) -> None:
    with pytest.raises(StageError, match="diverged"):
        fit_head(box_lesson, kept, 2, Fitting(4, learning_rate=float("inf")))
