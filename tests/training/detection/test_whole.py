"""A detector that learnt other objects goes on from what it learnt, with new classes."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advisor.catalog import Card, Catalogue, build_detector
from advisor.catalog._detector import ENCODINGS, LOGITS, MAP, place_anchors, reorder_encodings
from advisor.catalog._graph_file import CONSTANTS, GRAPH, AnchorLevel, BoxCode
from advisor.core import StageError
from advisor.store import sha256_file
from advisor.training import Hyperparameters, LabelledImages, box_detector_head, convert_to_flatbuffer, list_outputs
from advisor.training._detection.anchors import SIDE, make_anchors
from advisor.training._detection.whole import SCALES, begin_detector
from advisor.training._on_maps.changes import Objects
from advisor.training._on_maps.fit import fit
from advisor.training._on_maps.kept import KeptMaps
from tests.training.detection.squares import fitted
from tests.training.detection.test_fit import reached
from tests.training.nets import WIDE

pytestmark = pytest.mark.integration

FEW = Hyperparameters(epochs=6, seed=1)


def graph_card(path: Path, graph: bytes, code: BoxCode) -> Card:
    """Write a detector as a graph file whose constants are its own, and return its card."""
    levels = [{"cells": level.cells, "sides": level.sides} for level in code.levels]
    detector = {"levels": levels, "order": code.order, "scales": code.scales, "background": code.background}
    said = {"norms": {}, "shapes": {}, "constants": {}, "detector": detector}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(GRAPH, graph)
        archive.writestr(CONSTANTS, json.dumps(said))
    arguments = (("file", str(path)), ("sha256", sha256_file(path)))
    plain = Catalogue.load()["efficientdet_lite0_320"]
    return Card("squares", "own", WIDE, plain.preprocessing, 1, 1, "MIT", "", plain.architecture, arguments)


@pytest.fixture(scope="module")
def learnt(kept: KeptMaps, backbone: Any, tmp_path_factory: pytest.TempPathFactory) -> Card:
    """The card of a detector that has learnt red and green squares as one class."""
    import keras

    kept = KeptMaps(kept.levels, [Objects(row.boxes, 0 * row.labels) for row in kept.of_rows], kept.copies)
    head = fitted(box_detector_head, kept, 1, Hyperparameters(epochs=60))
    image = keras.Input(backbone.inputs[0].shape[1:], batch_size=1)
    maps = list_outputs(backbone(image))
    logits, encodings = head.model(maps)
    named = {LOGITS: logits, ENCODINGS: encodings, **{f"{MAP}{number}": each for number, each in enumerate(maps)}}
    cells = [level.shape[1:3] for level in kept.levels]
    levels = tuple(AnchorLevel(each, ((SIDE / each[0], SIDE / each[1]),)) for each in cells)
    folder = tmp_path_factory.mktemp("whole")
    data = convert_to_flatbuffer(keras.Model(image, named))
    return graph_card(folder / "squares.graph", data, BoxCode(levels, (0, 1, 2, 3), SCALES, False))


def test_what_was_learnt_stays_and_two_classes_are_new(learnt: Card, kept: KeptMaps, backbone: Any) -> None:
    import keras

    maps, head = begin_detector(build_detector(learnt, None), 2)
    pixels = np.random.default_rng(0).normal(size=(2, WIDE, WIDE, 3)).astype(np.float32)
    for one, other in zip(list_outputs(maps(pixels)), list_outputs(backbone(pixels)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)
    detector = build_detector(learnt, None)
    before = keras.Model(detector.maps.inputs, [layer.output for layer in detector.encodings])(pixels)
    logits, encodings = head.model(maps(pixels))
    assert logits.shape == (2, sum(level.shape[1] * level.shape[2] for level in kept.levels), 2)
    before = np.concatenate([np.reshape(each, (2, -1, 4)) for each in list_outputs(before)], axis=1)
    np.testing.assert_allclose(encodings, before, atol=1e-4)
    assert np.asarray(logits).max() < -3


def test_it_learns_faster(learnt: Card, kept: KeptMaps, boxed: LabelledImages, backbone: Any, tmp_path: Path) -> None:
    maps, head = begin_detector(build_detector(learnt, None), 2)
    fit(head, kept, FEW)
    new = fitted(box_detector_head, kept, 2, FEW)
    gained = reached(boxed, maps, head, tmp_path) - reached(boxed, backbone, new, tmp_path)
    assert gained > 0.1


def test_anchors_stand_in_the_middle_of_each_cell() -> None:
    levels = AnchorLevel((4, 4), ((2.0, 2.0),)), AnchorLevel((2, 2), ((4.0, 4.0),))
    assert np.array_equal(
        np.concatenate([place_anchors(level) for level in levels]), make_anchors([(4, 4), (2, 2)]).boxes
    )
    expected = [[0.5, 0.25, 0.5, 0.2], [0.5, 0.25, 0.1, 0.3], [0.5, 0.75, 0.5, 0.2], [0.5, 0.75, 0.1, 0.3]]
    np.testing.assert_allclose(place_anchors(AnchorLevel((1, 2), ((0.5, 0.2), (0.1, 0.3)))), expected)


def test_encodings_of_another_order_and_scale_become_ours() -> None:
    code = BoxCode((), (1, 0, 3, 2), (1.0, 2.0, 5.0, 5.0), True)  # x, y, width, height
    found = reorder_encodings(np.array([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]], np.float32), code, SCALES)
    assert found.tolist() == [[10.0, 10.0, 4.0, 3.0, 30.0, 50.0, 8.0, 7.0]]


def test_a_detector_without_last_convolutions_is_refused(learnt: Card, tmp_path: Path) -> None:
    with zipfile.ZipFile(str(learnt.keywords["file"])) as archive:
        data = archive.read(GRAPH)
        said = json.loads(io.BytesIO(archive.read(CONSTANTS)).read())
    code = BoxCode.from_json(said["detector"])
    more = BoxCode(code.levels * 2, code.order, code.scales, code.background)
    with pytest.raises(StageError, match="squares: 1 layers give its logits, and it has 2 levels"):
        build_detector(graph_card(tmp_path / "more.graph", data, more), None)
