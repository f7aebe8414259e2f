"""The post-processing of detectors, run by LiteRT."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from flatbuffers import flexbuffers

from advisor.core import StageError, UsageError
from advisor.tflite import (
    CENTRE_SCALE,
    DETECTIONS,
    OPERATOR,
    SIDE_SCALE,
    Metadata,
    Suppression,
    cut_postprocess,
    read,
    with_calibrated_scores,
)
from tests.builders import must_fail

from ..detectors import CELLS, SIDE, raw_detector
from .graphs import (
    FLOAT32,
    edited,
    foreign_detector,
    relu_on_scores,
    repeat_last_operator,
    tiny_detector,
    tiny_features,
)
from .test_metadata import described

ANCHORS = np.array([[0.2, 0.2, 0.2, 0.2], [0.5, 0.5, 0.4, 0.2], [0.8, 0.7, 0.1, 0.3]], np.float32)
PLACES = np.tile(np.array([[0.5, 0.5, 0.25, 0.25]], np.float32), (CELLS**2, 1)) + np.arange(CELLS**2)[:, None] * 0.01
VALUES = np.array([[[0.5, -1.0, 2.0, -3.0], [1.0, 0.2, -2.5, 0.1], [-2.0, 3.0, 0.3, 1.5]]], np.float32)
"""Encodings and logits of the three places."""


def detections(data: bytes, values: np.ndarray = VALUES, threads: int = 1) -> dict[str, np.ndarray]:
    """Run a detector; each output has as many rows as there are detections."""
    run = Interpreter(model_content=data, num_threads=threads).get_signature_runner()
    found = run(image=values.reshape(1, 2, 2, 3))
    count = int(found["count"][0])
    return {name: found[name][0, :count] for name in DETECTIONS[:3]}


def test_the_best_class_of_every_place_is_found_with_its_box_where_nothing_is_suppressed() -> None:
    found = detections(Suppression(12, score=0.0, overlap=1.0).append_to(tiny_detector(), ANCHORS))
    scores = 1 / (1 + np.exp(-VALUES[0]))
    places = np.argsort(-scores.max(axis=1))
    assert found["scores"] == pytest.approx(scores[places].max(axis=1), abs=1e-6)
    assert found["classes"].tolist() == scores[places].argmax(axis=1).tolist()
    sides = ANCHORS[:, 2:]
    middle = VALUES[0, :, :2] / CENTRE_SCALE * sides + ANCHORS[:, :2]
    half = np.exp(VALUES[0, :, 2:] / SIDE_SCALE) * sides / 2
    boxes = np.concatenate([middle - half, middle + half], axis=1)
    assert found["boxes"] == pytest.approx(boxes[places], abs=1e-5)


def test_boxes_below_the_least_score_or_above_the_largest_number_are_dropped() -> None:
    found = detections(Suppression(12, score=0.7, overlap=1.0).append_to(tiny_detector(), ANCHORS))
    assert found["scores"] == pytest.approx([0.9526, 0.8808, 0.7311], abs=1e-3)
    data = Suppression(2, score=0.0, overlap=1.0).append_to(tiny_detector(), ANCHORS)
    assert read(data).operators[-1].name == f"CUSTOM:{OPERATOR}"
    assert [tensor.shape for tensor in read(data).outputs] == [(1, 2, 4), (1, 2), (1, 2), (1,)]
    assert len(detections(data)["scores"]) == 2


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_no_class_is_lost_in_several_threads(threads: int) -> None:
    """With ``use_regular_nms``, LiteRT 2.3 loses the class whose index is the number of threads."""
    data = Suppression(12).append_to(tiny_detector(), ANCHORS)
    for best in range(4):
        values = np.full((1, 3, 4), -2.0, np.float32)
        values[0, :, best] = 1.0
        assert detections(data, values, threads)["classes"].tolist() == [best] * 3


@pytest.mark.parametrize("classes", [(0, 0), (0, 1)])
def test_of_boxes_that_overlap_the_better_one_stays(classes: tuple[int, int]) -> None:
    anchors = np.array([[0.5, 0.5, 0.4, 0.4]] * 3, np.float32)
    values = np.zeros((1, 3, 4), np.float32)
    for place, label, logit in ((1, classes[0], 0.5), (2, classes[1], 1.0)):
        values[0, place, label] = logit  # also moves a centre by up to 0.04
    found = detections(Suppression(12, score=0.55, overlap=0.5).append_to(tiny_detector(), anchors), values)
    assert found["classes"].tolist() == [classes[1]]
    assert found["scores"] == pytest.approx([0.731], abs=1e-3)


def test_a_model_without_these_outputs_and_anchors_of_another_number_are_refused() -> None:
    with pytest.raises(StageError, match="outputs features are not 'encodings' and 'scores'"):
        Suppression().append_to(tiny_features(), ANCHORS)
    with pytest.raises(StageError, match=r"anchors of shape \(2, 4\) for 3 places"):
        Suppression().append_to(tiny_detector(), ANCHORS[:2])


def test_a_detector_is_described() -> None:
    data = Suppression().append_to(tiny_detector(), ANCHORS)
    metadata = described(("a", "b", "c", "d"))
    assert Metadata.read(metadata.write_into(data)) == metadata
    limited = replace(metadata, threshold=0.625)
    assert Metadata.read(limited.write_into(data)) == limited


def test_post_processing_that_was_cut_and_put_back_gives_the_same_boxes() -> None:
    data = Suppression(7, score=0.4, overlap=0.3).append_to(tiny_detector(), ANCHORS)
    raw, process = cut_postprocess(data)
    assert [tensor.name for tensor in read(raw).outputs] == ["scores", "encodings"]
    assert not any(operator.name.startswith("CUSTOM") for operator in read(raw).operators)
    assert (process.most, process.classes, process.columns) == (7, 4, 4)
    before, after = detections(data), detections(process.put_back(raw))
    for name in before:
        assert before[name].tolist() == after[name].tolist()


def test_outputs_in_another_order_and_without_a_signature_come_back_under_their_names() -> None:
    raw, process = cut_postprocess(foreign_detector(keep=0.0))
    found = detections(process.put_back(raw))
    wanted = detections(Suppression(12, score=0.0, overlap=1.0).append_to(tiny_detector(), ANCHORS))
    for name in wanted:
        assert found[name].tolist() == wanted[name].tolist()


def test_a_background_in_the_scores_is_no_class() -> None:
    raw, process = cut_postprocess(edited(foreign_detector(), with_options(num_classes=3)))
    assert (process.classes, process.columns) == (3, 4)
    assert detections(process.put_back(raw))["classes"].max() <= 2


def without_count(model: Any) -> None:
    graph = model.subgraphs[0]
    graph.outputs = [place for place in graph.outputs if place != graph.operators[-1].outputs[3]]


def other_anchors(model: Any) -> None:
    graph = model.subgraphs[0]
    graph.operators[-1].inputs[2] = model.add_tensor(graph, "few", (1, 4), FLOAT32, np.zeros((1, 4), "f4").tobytes())


def no_anchors(model: Any) -> None:
    graph = model.subgraphs[0]
    graph.operators[-1].inputs[2] = model.add_tensor(graph, "none", (3, 4), FLOAT32)


def two_inputs(model: Any) -> None:
    model.subgraphs[0].operators[-1].inputs = model.subgraphs[0].operators[-1].inputs[:2]


def no_options(model: Any) -> None:
    model.subgraphs[0].operators[-1].customOptions = None


def with_options(**changed: int) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        operator = model.subgraphs[0].operators[-1]
        options = flexbuffers.Loads(bytearray(operator.customOptions))
        operator.customOptions = list(flexbuffers.Dumps({**options, **changed}))

    return change


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (repeat_last_operator, f"net.tflite has 2 operators {OPERATOR}, and a detector has 1"),
        (relu_on_scores, f"net.tflite does not end in {OPERATOR}: RELU reads its output"),
        (without_count, r"net.tflite has the outputs .*, not the 4 of"),
        (other_anchors, r"its anchors are of shape \(1, 4\), and it has 3 places"),
        (no_anchors, "its anchors are no constants"),
        (two_inputs, "not boxes, scores and anchors"),
        (no_options, f"net.tflite .options of {OPERATOR}. is not a usable"),
        (with_options(max_detections=2**40), "gives 1099511627776 boxes of 4 classes"),
    ],
)
def test_a_file_that_does_not_end_in_one_is_refused(edit: Callable[[Any], None], message: str) -> None:
    must_fail(UsageError, message, cut_postprocess, edited(foreign_detector(), edit), "net.tflite")


def test_a_file_without_post_processing_is_refused() -> None:
    must_fail(UsageError, f"net.tflite has 0 operators {OPERATOR}", cut_postprocess, tiny_detector(), "net.tflite")


@pytest.mark.parametrize(("slope", "offset"), [(2.0, 0.0), (1.0, -1.5), (0.6, 0.8)])
def test_calibrated_scores_keep_the_boxes_and_move_the_logits(slope: float, offset: float) -> None:
    image = np.random.default_rng(0).uniform(-1, 1, (1, SIDE, SIDE, 3)).astype(np.float32)
    plain = Suppression(10, score=0.4).append_to(raw_detector(-0.5), PLACES)
    before, after = (
        Interpreter(model_content=data).get_signature_runner()(image=image)
        for data in (plain, with_calibrated_scores(plain, slope, offset))
    )
    count = int(before["count"][0])
    assert 0 < count == int(after["count"][0]) < 10
    scores = before["scores"][0, :count].astype(float)
    wanted = 1 / (1 + np.exp(-slope * np.log(scores / (1 - scores)) - offset))
    assert after["scores"][0, :count] == pytest.approx(wanted, abs=1e-5)
    for name in ("boxes", "classes"):
        assert after[name][0, :count].tolist() == before[name][0, :count].tolist()


def test_scores_of_another_layer_cannot_be_calibrated() -> None:
    with pytest.raises(StageError, match=r"its scores come from its input, and not from a float convolution"):
        with_calibrated_scores(Suppression().append_to(tiny_detector(), ANCHORS), 2.0, 0.0)
