"""A head for centres, trained on the maps of a small backbone and run by LiteRT."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advisor.measurement import CentreFinder, match_centres, true_boxes
from advisor.measurement._average_precision import centre_score
from advisor.training import Hyperparameters, LabelledImages, centre_detector_head, convert_to_flatbuffer
from advisor.training._on_maps.kept import KeptMaps
from advisor.training._on_maps.train import join_head
from tests.training.detection.squares import LEARNT, VIEW, fitted

pytestmark = pytest.mark.integration


def test_a_head_learns_to_mark_objects_of_two_classes(
    boxed: LabelledImages, backbone: Any, kept: KeptMaps, tmp_path: Path
) -> None:
    learnt = fitted(centre_detector_head, kept, 2, Hyperparameters(epochs=60))
    path = tmp_path / "marker.tflite"
    path.write_bytes(convert_to_flatbuffer(join_head(backbone, learnt)))
    run = CentreFinder(path, VIEW)
    found = [run(image) for image in boxed.paths[LEARNT:]]
    true = [
        true_boxes([(int(label), *box) for label, box in zip(one.labels, one.boxes.tolist(), strict=True)])
        for one in boxed.labels[LEARNT:]
    ]
    assert centre_score(match_centres(true, found), 2).mean.value > 0.8


def test_the_map_has_a_place_for_each_cell_of_the_finest_map(kept: KeptMaps, backbone: Any) -> None:
    head, places = centre_detector_head([level.shape[1:] for level in kept.levels], 2), kept.levels[0].shape[1:3]
    assert join_head(backbone, head).output["centres"].shape == (1, *places, 2)
    assert head.finish is not None
    head.finish(np.full((LEARNT, *places, 2), -9.0, np.float32), kept.labels)
    assert np.isfinite(head.model.get_weights()[-1]).all(), "nothing was found"
