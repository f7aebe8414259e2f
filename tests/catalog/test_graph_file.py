"""Graph files: constants follow from a checkpoint by name, and the Keras graph computes the same."""

import zipfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from advisor.catalog import Card, Catalogue, build_model, run
from advisor.catalog._cards import GRAPH_FILE
from advisor.catalog._checking import count_graph
from advisor.catalog._convert import to_tflite
from advisor.catalog._graph_file import CONSTANTS, GRAPH, GraphFile, graph_of, read_graph
from advisor.catalog._keras_graph import keras_graph
from advisor.compression import RecipeInputs, recipe
from advisor.core import StageError, UsageError, WeightsError
from advisor.datasets import InputSpec
from advisor.store import shipped_folder
from advisor.tflite import count, read
from advisor.training._finetune.network import level_layers
from tests.builders import must_fail
from tests.measurement import small_models
from tests.tables import read_table
from tests.tflite.graphs import INT32

CATALOGUE = Catalogue.load()
CARDS = {card.name: card for card in CATALOGUE.values() if card.architecture == GRAPH_FILE}
BUILT = {card.name: card for card in CATALOGUE.values() if card.graph}  # by Keras too
SMALL = CARDS["lcnet_0.5_224"]
ALL_TERMS = ("edgenext_xx_small_288", "efficientformer_v2_s0_224", "repvit_m0.9_224")
"""Graphs whose constants have every kind of term."""
SHAPES = {"norm.weight": (2,), "norm.bias": (2,), "norm.running_mean": (2,), "norm.running_var": (2,), "w": (2, 3)}
FAMILIES = read_table(__file__, "texts.yaml")["families_of_graph_files"]
MOST_OPERATORS = ("edgenext_xx_small_288", "resnet_10t_224")


@pytest.fixture(scope="module")
def graph() -> GraphFile:
    return graph_of(SMALL)


@pytest.fixture
def tiny() -> tuple[GraphFile, dict[str, Any]]:
    draw = np.random.default_rng(0)
    values = {name: draw.uniform(0.5, 1.5, shape).astype(np.float32) for name, shape in SHAPES.items()}
    return GraphFile(b"", {}, {"norm": 1e-3}, SHAPES, {"0.npy": np.array([5, 0])}), values


def marked(names: Iterable[str], quick: tuple[str, ...]) -> list[Any]:
    """All names but the quick ones are for the slow run."""
    return [pytest.param(name, marks=[pytest.mark.slow] * (name not in quick)) for name in names]


def random_file(card: Card, scale: float = 1.0) -> bytes:
    """The card's graph with random weights; all but vectors are scaled."""
    graph = graph_of(card)
    weights = {key: value * (scale if value.ndim > 1 else 1.0) for key, value in graph.draw_tensors().items()}
    return graph.fill_constants(weights)


def test_a_graph_file_has_the_counts_of_its_card() -> None:
    counts = count_graph(SMALL)
    assert (counts.params, counts.macs) == (SMALL.params, SMALL.macs)
    cards = {**CARDS, **BUILT}
    assert [graph_of(card).params for card in cards.values()] == [card.params for card in cards.values()]


@pytest.mark.parametrize("name", marked([*CARDS, *BUILT], (*ALL_TERMS, "inception_v2_224", "squeezenet_1.0_227")))
def test_a_shipped_graph_computes_the_classes_of_its_card(name: str) -> None:
    card = CATALOGUE[name]
    filled = random_file(card)
    assert count(read(filled)).macs == card.macs
    image = np.random.default_rng(0).normal(size=(1, card.input_size, card.input_size, 3)).astype(np.float32)
    outputs = run(filled, image)
    assert outputs["probabilities"].shape == (1, card.classes)
    assert outputs["probabilities"].sum() == pytest.approx(1.0, abs=1e-3)
    assert np.isfinite(outputs["features"]).all()
    assert float(outputs["features"].std()) > 1e-6, "denormal numbers take many times longer"


def test_nearly_every_card_has_a_graph_file_for_its_own_side_alone() -> None:
    assert [name for name, card in CATALOGUE.items() if card.needs_converter] == ["inception_v4_299"]
    assert BUILT["mobilenet_v2_1.0_224"].at(320).needs_converter


@pytest.mark.integration
@pytest.mark.parametrize("name", marked(BUILT, ("mobilenet_v3_small_0.75_224",)))
def test_a_filled_graph_is_the_file_that_keras_graph_converts_to(name: str) -> None:
    from advisor.catalog._keras_layers import fill_layers

    card, draw = BUILT[name], np.random.default_rng(7)
    graph = graph_of(card)
    weights = graph.draw_tensors()
    for tensor, shape in graph.shapes.items():
        if len(shape) == 1:
            weights[tensor] = weights[tensor] + draw.uniform(-0.3, 0.3, shape).astype(np.float32)
    model = build_model(card, None)
    fill_layers(model, weights)
    filled, converted = graph.fill_constants(weights), to_tflite(model)
    one, other = ([operator.name for operator in read(data).operators] for data in (filled, converted))
    assert sorted(one) == sorted(other), "but for the order of branches"
    image = draw.normal(size=(1, card.input_size, card.input_size, 3)).astype(np.float32)
    found, expected, keras = run(filled, image), run(converted, image), model(image, training=False)
    for output in ("probabilities", "features"):
        scale = np.abs(expected[output]).max()
        # Constants agree within 2e-7, of which random weights make up to 1.5e-4 on some processors.
        assert np.abs(found[output] - expected[output]).max() <= 2e-4 * scale
        assert np.abs(found[output] - np.asarray(keras[output])).max() <= 1e-3 * scale


def test_a_term_is_what_is_left_of_a_layer_and_its_norm(tiny: tuple[GraphFile, dict[str, Any]]) -> None:
    graph, values = tiny
    deviation = np.sqrt(values["norm.running_var"] + 1e-3)
    scale = values["norm.weight"] / deviation
    shift = values["norm.bias"] - values["norm.running_mean"] * scale
    for term, expected in (
        ({"from": "w", "axes": [1, 0]}, values["w"].T),
        ({"from": "w", "axes": [0, 1], "times": [["norm", 0]]}, values["w"] * scale[:, None]),
        ({"from": "w", "index": "0.npy"}, values["w"].reshape(-1)[[5, 0]]),
        ({"from": "norm.bias", "axes": [0], "times": [[2.0, 0]]}, 2 * values["norm.bias"]),
        ({"shift": "norm"}, shift),
        ({"shift": "norm", "bias": "norm.bias"}, shift + values["norm.bias"] * scale),
        ({"scale": "norm"}, scale),
        ({"deviation": "norm"}, deviation),
        ({"number": 3.0}, 3.0),
    ):
        assert graph.term(term, values) == pytest.approx(expected, rel=1e-5)


def test_a_linear_layer_takes_the_offset_before_it(tiny: tuple[GraphFile, dict[str, Any]]) -> None:
    graph, values = tiny
    found = graph.term({"matrix": "w", "by": "v"}, {**values, "v": np.array([1.0, 2.0, 3.0])})
    assert found == pytest.approx(values["w"] @ [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.pop("classifier.weight"), "no tensor 'classifier.weight'"),
        (lambda t: t.update(more=np.ones(3)), "1 tensors of the file have no place in the graph, first 'more'"),
        (lambda t: t.update({"classifier.bias": np.ones(3)}), r"'classifier.bias' has the shape \(3,\), .* \(1000,\)"),
        (lambda t: t.update({"classifier.bias": np.full(1000, np.nan)}), "'classifier.bias' are not all finite"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused_by_the_tensor(graph: GraphFile, change: Any, words: str) -> None:
    tensors = graph.draw_tensors()
    change(tensors)
    must_fail(WeightsError, words, graph.fill_constants, tensors)


def test_counters_of_training_are_no_part_of_the_graph(graph: GraphFile) -> None:
    tensors = graph.draw_tensors()
    assert graph.fill_constants({**tensors, "bn1.num_batches_tracked": np.array(5)}) == graph.fill_constants(tensors)


def test_a_graph_file_that_changed_is_refused() -> None:
    changed = replace(SMALL, arguments=(("file", str(SMALL.keywords["file"])), ("sha256", "0" * 64)))
    must_fail(UsageError, r"lcnet_050.* has changed: its sha256 is", graph_of, changed)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"x" * 5000, "changed"])
def test_a_damaged_graph_file_is_refused(tmp_path: Path, content: bytes | str) -> None:
    if isinstance(content, str):  # what is compressed inside
        whole = bytearray((shipped_folder("catalogs") / "graphs" / str(SMALL.keywords["file"])).read_bytes())
        whole[100:140] = bytes(40)
        content = bytes(whole)
    (tmp_path / "a.graph").write_bytes(content)
    must_fail(UsageError, "a.graph is not a graph file", read_graph, tmp_path / "a.graph")


def test_a_graph_file_without_constants_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.graph", "w") as archive:
        archive.writestr(GRAPH, b"")
        archive.writestr(CONSTANTS, "[]")
    must_fail(UsageError, "is not a graph file", read_graph, tmp_path / "a.graph")


def test_graph_files_and_cards_belong_together() -> None:
    folder = shipped_folder("catalogs") / "graphs"
    files = [str(card.keywords["file"]) for card in CATALOGUE.values() if card.by_file]
    named = [*files, *(f"{name}.graph" for name in BUILT)]
    assert sorted(path.name for path in folder.iterdir()) == sorted(named)


@pytest.mark.integration
@pytest.mark.parametrize("name", marked(FAMILIES, MOST_OPERATORS))
def test_the_keras_graph_computes_what_the_file_does(name: str) -> None:
    import keras

    card = CARDS[name]
    # Attention by large scores is chaotic.
    data = random_file(card, 0.5 if name.startswith(("levit", "ghostnet_v2")) else 1.0)
    model = keras_graph(data, name)
    image = np.random.default_rng(0).normal(size=model.inputs[0].shape).astype(np.float32)
    expected, two = run(data, image), model(np.repeat(image, 2, 0), training=False)
    for output in ("probabilities", "features"):
        assert two[output].shape == (2, expected[output].size)
        assert np.abs(np.asarray(two[output]) - expected[output]).max() <= 1e-4 * np.abs(expected[output]).max()
    assert sum(layer.count_params() for layer in model.layers) > 0.85 * card.params
    assert all(model.get_layer(level) for level in level_layers(keras.Model(model.input, model.output["features"])))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["edgenext_xx_small_288", "levit_128s_224", "tiny_vit_5m_224", "efficientformer_v2_s0_224"]
)
def test_a_network_with_attention_becomes_int8(name: str) -> None:
    card = CARDS[name]
    # With larger weights, one class has all the probability, and a rounding decides which.
    data = random_file(card, 0.7)
    images = InputSpec(card.input_size, card.preprocessing.mean, card.preprocessing.std).draw_photographs()[:4]
    made = recipe("int8").make(data, RecipeInputs(images[1:])).data
    assert len(made) < 0.5 * len(data)
    ours, theirs = (run(each, images[:1])["features"].ravel().astype(float) for each in (made, data))
    assert np.corrcoef(ours, theirs)[0, 1] > 0.98


@pytest.mark.integration
def test_an_operator_that_cannot_be_trained_is_named(monkeypatch: pytest.MonkeyPatch, graph: GraphFile) -> None:
    monkeypatch.delitem(keras_graph.__globals__["_map_layer_makers"](), "CONV_2D")
    with pytest.raises(StageError, match="net: training a file with the operator CONV_2D is not supported"):
        keras_graph(graph.fill_constants(graph.draw_tensors()), "net")


@pytest.mark.integration
def test_an_axis_that_a_mask_takes_whole_stays_whole() -> None:
    build, image = small_models.Builder.with_image(8)
    numbers = [build.constant(np.array(each, np.int32), INT32) for each in ([1, 1, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1])]
    options = schema.StridedSliceOptionsT(beginMask=9, endMask=15)
    sliced = build.operator(small_models.OPERATORS.STRIDED_SLICE, [image, *numbers], (1, 7, 7, 3), options)
    assert_computes_the_same(build, image, sliced)


@pytest.mark.integration
@pytest.mark.parametrize("axes", [(1, 2), (3,)])
def test_means_that_keep_their_axes_stay_the_same(axes: tuple[int, ...]) -> None:
    build, image = small_models.Builder.with_image(8)
    numbers = build.constant(np.array(axes, np.int32), INT32)
    shape = tuple(1 if axis in axes else side for axis, side in enumerate((1, 8, 8, 3)))
    options = schema.ReducerOptionsT(keepDims=True)
    mean = build.operator(small_models.OPERATORS.MEAN, [image, numbers], shape, options)
    gate = build.operator(small_models.OPERATORS.LOGISTIC, [mean], shape)
    gated = build.operator(small_models.OPERATORS.MUL, [image, gate], (1, 8, 8, 3), schema.MulOptionsT())
    assert_computes_the_same(build, image, gated)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("code", "options", "side"),
    [
        (small_models.OPERATORS.RESIZE_BILINEAR, schema.ResizeBilinearOptionsT(halfPixelCenters=True), 16),
        (small_models.OPERATORS.RESIZE_NEAREST_NEIGHBOR, schema.ResizeNearestNeighborOptionsT(), 16),
        (small_models.OPERATORS.RESIZE_NEAREST_NEIGHBOR, schema.ResizeNearestNeighborOptionsT(), 13),
    ],
)
def test_enlarged_maps_stay_the_same(code: int, options: Any, side: int) -> None:
    build, image = small_models.Builder.with_image(8)
    smooth = build.operator(small_models.OPERATORS.HARD_SWISH, [image], (1, 8, 8, 3))
    sides = build.constant(np.array([side, side], np.int32), INT32)
    large = build.operator(code, [smooth, sides], (1, side, side, 3), options)
    assert_computes_the_same(build, image, large)


def assert_computes_the_same(build: small_models.Builder, image: int, last: int) -> None:
    data = build.finish({"image": image}, {"probabilities": build.convolution(last, 4)})
    values = np.random.default_rng(0).normal(size=(1, 8, 8, 3)).astype(np.float32)
    found = keras_graph(data, "net")(values, training=False)["probabilities"]
    assert np.asarray(found) == pytest.approx(run(data, values)["probabilities"], abs=1e-5)
