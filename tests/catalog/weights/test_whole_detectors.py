"""Weights of whole detectors are fetched by address and hash as those of classifiers are, and fill their graphs."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from advisor.catalog import Card, Catalogue, WeightSource, build_detector, convert, fetch_weights, run
from advisor.catalog._checking import count_graph
from advisor.catalog._detector import ENCODINGS, LOGITS, MAP
from advisor.catalog._graph_file import graph_of
from advisor.core import WeightsError
from advisor.store import FetchOptions, MemberFile
from advisor.tflite import read
from benchmarks.whole_detectors import ANSWERS, KEPT_IMAGES, normalise, pick_values
from benchmarks.whole_detectors_networks import draw_images, draw_weights
from tests.builders import must_fail
from tests.catalog.weights.test_readers import safetensors
from tests.makers.servers import Shelf
from tests.makers.weights import sha256

pytestmark = pytest.mark.integration

WHOLE = {name: card for name, card in Catalogue.load().items() if card.whole}
SMALL = WHOLE["ssdlite320_mobilenet_v3_large"]


@pytest.mark.parametrize("card", WHOLE.values(), ids=WHOLE)
def test_a_graph_has_the_counts_and_the_anchors_of_its_card(card: Card) -> None:
    counts = count_graph(card)
    assert (counts.params, counts.macs, card.task) == (card.params, card.macs, "object-detection")
    graph = graph_of(card)
    assert graph.boxes is not None
    model = read(graph.graph)
    outputs = {name: model.tensors[index].shape[1:] for name, index in model.signatures[0].outputs}
    shapes = {name: outputs[name] for name in (LOGITS, ENCODINGS)}
    places = sum(len(level.sides) * level.cells[0] * level.cells[1] for level in graph.boxes.levels)
    assert shapes == {LOGITS: (places, card.classes), ENCODINGS: (places, 4)}


@pytest.mark.parametrize("card", WHOLE.values(), ids=WHOLE)
def test_a_file_answers_as_the_network_of_its_package(card: Card) -> None:
    graph = graph_of(card)
    data = graph.fill_constants(draw_weights(graph.shapes))
    with ANSWERS.open(newline="", encoding="utf-8") as file:
        rows = [row for row in list(csv.reader(file))[1:] if row[0] == card.name]
    assert len(rows) == 2 * KEPT_IMAGES
    found = [run(data, normalise(card, image)) for image in draw_images(card.input_size, KEPT_IMAGES)]
    for _, output, number, largest, *values in rows:
        answer = found[int(number)][output]
        expected = np.array([largest, *values], float)
        actual = np.array([np.abs(answer).max(), *pick_values(answer)])
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-4 * expected[0])


def test_served_weights_give_the_answers_of_the_graph_file(shelf: Shelf, options: FetchOptions, tmp_path: Path) -> None:
    import keras

    weights = graph_of(SMALL).draw_tensors()
    data = safetensors(*((name, "F32", list(value.shape), value.tobytes()) for name, value in weights.items()))
    shelf.put("/coco.safetensors", data)
    member = MemberFile("coco.safetensors", sha256(data), len(data))
    source = WeightSource("url", "safetensors", "graph_file", member, url=f"{shelf.url}/coco.safetensors")
    card = replace(SMALL, weights=(source,))
    file = fetch_weights(card, options)
    convert(card, file, tmp_path / "whole.tflite")
    image = np.random.default_rng(0).normal(size=(1, 320, 320, 3)).astype(np.float32)
    expected = run((tmp_path / "whole.tflite").read_bytes(), image)
    detector = build_detector(card, file)
    layers = (*detector.logits, *detector.encodings)
    outputs = [*detector.maps.outputs, *(layer.output for layer in layers)]
    found = [np.asarray(each) for each in keras.Model(detector.maps.inputs, outputs)(image)]
    count, levels = len(detector.maps.outputs), len(detector.logits)
    parts = {f"{MAP}{number}": [found[number]] for number in range(count)}
    parts |= {LOGITS: found[count : count + levels], ENCODINGS: found[count + levels :]}
    for output, rows in parts.items():
        joined = np.concatenate([each.reshape(1, -1) for each in rows], axis=1).reshape(expected[output].shape)
        np.testing.assert_allclose(joined, expected[output], atol=1e-4 * np.abs(expected[output]).max())
    changed = replace(source, file=replace(member, sha256=sha256(b"another")))
    must_fail(WeightsError, "ssdlite320_mobilenet_v3_large", fetch_weights, replace(SMALL, weights=(changed,)), options)
