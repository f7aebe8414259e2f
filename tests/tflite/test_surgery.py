"""Cutting a file, adding a head to it, and writing it as the converter of TensorFlow does."""

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from scipy.special import softmax

from advisor.compression._diagnosis.running import InspectableModel
from advisor.core import StageError
from advisor.tflite import attach_head, dequantize, quantize, read, select_output, to_float16, unpack
from advisor.tflite._fusion import simplify_file
from advisor.tflite._layout import TO_NCHW, TO_NHWC, without_transposes
from tests.builders import must_fail
from tests.measurement import small_models
from tests.tables import with_cases
from tests.tflite.graphs import FLOAT32, Graph, features_graph, tiny_classifier, tiny_features
from tests.tflite.running import Array, Quantize, Run, stays_within_one_delegate
from tests.tflite.test_layout import NCHW, NHWC, B, outputs

CONVOLUTION = schema.Conv2DOptionsT(strideH=1, strideW=1, dilationHFactor=1, dilationWFactor=1)


@pytest.fixture(scope="module")
def head() -> tuple[Array, Array]:
    random = np.random.default_rng(5)
    return random.normal(0, 0.2, (1280, 5)).astype(np.float32), random.normal(size=5).astype(np.float32)


@pytest.fixture(scope="module")
def classifier(backbone: bytes, head: tuple[Array, Array]) -> bytes:
    return attach_head(backbone, *head)


@pytest.mark.parametrize("name", ["features", "probabilities"])
def test_the_kept_output_is_bit_identical(master: bytes, images: list[Array], run: Run, name: str) -> None:
    outputs = run(select_output(master, name), {"image": images[0]})
    assert list(outputs) == [name]
    np.testing.assert_array_equal(outputs[name], run(master, {"image": images[0]})[name])


def test_dropping_the_head_drops_its_operators_their_codes_tensors_and_bytes(master: bytes, backbone: bytes) -> None:
    whole, part = read(master), read(backbone)
    assert [operator.name for operator in part.operators] == [o.name for o in whole.operators[:-2]]
    assert len(part.tensors) == len(whole.tensors) - 3
    assert whole.size_bytes - part.size_bytes > 1280 * 100 * 4
    assert [name for name, _ in part.signatures[0].outputs] == ["features"]
    part = schema.ModelT.InitFromPackedBuf(select_output(tiny_classifier(), "features"))
    assert [code.builtinCode for code in part.operatorCodes] == [schema.BuiltinOperator.RELU]


def test_selecting_the_only_output_keeps_everything(backbone: bytes) -> None:
    assert read(select_output(backbone, "features")).subgraphs == read(backbone).subgraphs


def test_an_unused_input_stays(run: Run) -> None:
    graph = features_graph()
    other = graph.tensor("other", (1, 4))
    total = graph.added(schema.BuiltinOperator.ADD, [1, other], (1, 4), schema.AddOptionsT())
    data = graph.finish({"image": 0, "other": other}, {"features": 1, "total": total})
    values = np.array([[-1, 0, 1, 2]], np.float32)
    outputs = run(select_output(data, "features"), {"image": values, "other": values})
    np.testing.assert_array_equal(outputs["features"], [[0, 0, 1, 2]])


def test_an_unknown_output_names_the_nearest() -> None:
    error = must_fail(StageError, "did you mean 'features'", select_output, tiny_classifier(), "feature")
    assert "features, scores" in error.hint


@pytest.mark.parametrize("several", ["signatures", "subgraphs"])
def test_two_signatures_or_subgraphs_are_refused(several: str) -> None:
    graph = features_graph()
    if several == "signatures":
        graph.signature({"image": 0}, {"again": 1})
    else:
        graph.model.subgraphs.append(graph.graph)
    must_fail(StageError, f"2 {several}", select_output, graph.finish({"image": 0}, {"features": 1}), "features")


def test_the_head_is_the_softmax_of_a_linear_map(
    master: bytes, classifier: bytes, head: tuple[Array, Array], images: list[Array], run: Run
) -> None:
    """Sums of 1,280 products in float32 depend on their order, which differs between processors: by 2e-6 on AVX-512."""
    weights, bias = (values.astype(np.float64) for values in head)
    for image in images[:3]:
        expected = softmax(run(master, {"image": image})["features"].astype(np.float64) @ weights + bias)
        outputs = run(classifier, {"image": image})
        assert list(outputs) == ["probabilities"]
        np.testing.assert_allclose(outputs["probabilities"], expected, rtol=0, atol=1e-5)


def test_the_head_runs_inside_the_delegate_and_its_weights_are_aligned(classifier: bytes, master: bytes) -> None:
    assert stays_within_one_delegate(classifier)
    assert read(classifier).operators[-1].name == "SOFTMAX"

    def codes(data: bytes) -> set[tuple[int, int, int]]:
        model = schema.ModelT.InitFromPackedBuf(data)
        return {(code.builtinCode, code.deprecatedBuiltinCode, code.version) for code in model.operatorCodes}

    assert codes(classifier) == codes(master)
    for tensor in read(classifier).tensors:
        if len(tensor.buffer) > 64:
            assert classifier.index(tensor.buffer) % 16 == 0


@with_cases
def test_a_head_of_the_wrong_shape_is_refused(weights: list[int], bias: list[int]) -> None:
    with pytest.raises(StageError, match="does not fit 4 features"):
        attach_head(tiny_features(), np.zeros(weights, np.float32), np.zeros(bias, np.float32))


def a_map() -> bytes:
    graph = features_graph()
    return graph.finish({"image": 0}, {"features": graph.tensor("map", (1, 2, 2), dtype=FLOAT32)})


@pytest.mark.parametrize(
    ("data", "weight", "reason"),
    [
        (tiny_features(), np.nan, "finite"),
        (tiny_classifier(), 0.0, "only output is 'features'"),
        (a_map(), 0.0, r"\(1, 2, 2\)"),
    ],
)
def test_a_head_is_finite_and_needs_pooled_features_alone(data: bytes, weight: float, reason: str) -> None:
    must_fail(StageError, reason, attach_head, data, np.full((4, 2), weight), np.zeros(2))


@pytest.mark.parametrize("name", ["static_wi8_ai8", "dynamic_wi8_afp32", "weight_only_wi8_afp32"])
def test_the_quantizer_takes_the_classifier(classifier: bytes, quantize: Quantize, name: str) -> None:
    model = read(quantize(classifier, name))
    kernel = next(tensor for tensor in model.tensors if tensor.name == "head/weights")
    assert (kernel.dtype, kernel.shape) == ("int8", (5, 1280))
    assert model.size_bytes < 0.45 * len(classifier)


@pytest.mark.parametrize("index", range(4))
def test_an_operator_alone_does_what_it_does_in_its_graph(index: int) -> None:
    data = small_models.classifier(32)
    whole = InspectableModel(data, "whole")
    whole(np.random.default_rng(0).uniform(-1, 1, (1, 32, 32, 3)).astype(np.float32))
    tables = unpack(data)
    file, inputs = tables.cut_operator(index)
    single = InspectableModel(file, "single")
    single(*(whole.read(tensor) for tensor in inputs))
    expected = whole.read(tables.subgraphs[0].operators[index].outputs[0])
    np.testing.assert_array_equal(single.output, expected)


def test_what_expands_a_stored_kernel_comes_along() -> None:
    data = to_float16(small_models.classifier(32))
    place = next(i for i, one in enumerate(read(data).operators) if one.name == "CONV_2D")
    file, inputs = unpack(data).cut_operator(place)
    assert len(inputs) == 1
    assert {one.name for one in read(file).operators} == {"DEQUANTIZE", "CONV_2D"}


def kinds(data: bytes) -> list[str]:
    return [operator.name for operator in read(data).operators]


def maps(graph: Graph, image: int) -> int:
    inputs = [image, graph.floats(8, 1, 1, 3), graph.floats(8)]
    return graph.added(B.CONV_2D, inputs, NHWC, CONVOLUTION)


def test_an_activation_from_which_a_transpose_separated_it_joins_the_convolution() -> None:
    graph, image = Graph.with_image((1, 4, 6, 3))
    clipped = graph.added(B.RELU6, [graph.transposed(maps(graph, image), TO_NCHW, NCHW)], NCHW)
    data = graph.finish({"image": image}, {"result": graph.transposed(clipped, TO_NHWC, NHWC)})
    edited = simplify_file(without_transposes(data))
    assert kinds(edited) == ["CONV_2D"]
    assert outputs(edited)["result"] == pytest.approx(outputs(data)["result"], abs=1e-6)


def test_an_activation_of_what_others_read_stays() -> None:
    graph, image = Graph.with_image((1, 4, 6, 3))
    source = maps(graph, image)
    clipped = graph.added(B.RELU, [source], NHWC)
    total = graph.added(B.ADD, [source, clipped], NHWC, schema.AddOptionsT())
    data = graph.finish({"image": image}, {"result": total})
    assert kinds(simplify_file(data)) == ["CONV_2D", "RELU", "ADD"]


def padded_pooling(positive: bool = False, lowest: float = float(np.finfo(np.float32).min)) -> bytes:
    """A file whose pooling takes maxima of a map with margins of the lowest number."""
    graph, image = Graph.with_image((1, 4, 6, 3))
    source = maps(graph, image)
    source = graph.added(B.RELU, [source], NHWC) if positive else source
    margins = graph.integers((0, 0), (1, 1), (1, 1), (0, 0))
    inputs = [source, margins, graph.tensor("lowest", (), np.float32(lowest))]
    padded = graph.added(B.PADV2, inputs, (1, 6, 8, 8), schema.PadV2OptionsT())
    pool = schema.Pool2DOptionsT(padding=schema.Padding.VALID, filterHeight=3, filterWidth=3, strideH=1, strideW=1)
    return graph.finish({"image": image}, {"result": graph.added(B.MAX_POOL_2D, [padded], NHWC, pool)})


@pytest.mark.parametrize(("positive", "kind"), [(True, "PAD"), (False, "PADV2")])
def test_a_max_pooling_of_positive_values_is_padded_with_zeros(positive: bool, kind: str) -> None:
    data = padded_pooling(positive)
    edited = simplify_file(data)
    assert kinds(edited) == ["CONV_2D", kind, "MAX_POOL_2D"]
    assert outputs(edited)["result"] == pytest.approx(outputs(data)["result"], abs=1e-6)


@pytest.mark.parametrize("change", ["mean", "sum", "other values", "read twice", "activation"])
def test_two_heads_of_the_same_values_become_one(change: str) -> None:
    graph, image = Graph.with_image((1, 6))
    other = graph.added(B.RELU, [image], (1, 6)) if change == "other values" else image
    dense = schema.FullyConnectedOptionsT(fusedActivationFunction=1 if change == "activation" else 0)
    heads = [
        graph.added(B.FULLY_CONNECTED, [values, graph.floats(4, 6), graph.floats(4)], (1, 4), dense)
        for values in (image, other)
    ]
    total = graph.added(B.ADD, heads, (1, 4), schema.AddOptionsT())
    half = graph.tensor("half", (1,), np.asarray([0.5], np.float32))
    scored = total if change == "sum" else graph.added(B.MUL, [total, half], (1, 4), schema.MulOptionsT())
    results = {"result": scored} | ({"head": heads[0]} if change == "read twice" else {})
    data = graph.finish({"image": image}, results)
    edited = simplify_file(data)
    assert (kinds(edited) == ["FULLY_CONNECTED"]) is (change in ("mean", "sum"))
    assert outputs(edited)["result"] == pytest.approx(outputs(data)["result"], abs=1e-6)


def test_quantise_rounds_clips_and_comes_back() -> None:
    detail = {"dtype": np.int8, "quantization": (0.5, -3)}
    stored = quantize(np.array([0.0, 0.24, 0.26, 1e9, -1e9], np.float32), detail)
    assert stored.tolist() == [-3, -3, -2, 127, -128]
    assert dequantize(stored[:3], detail).tolist() == [0.0, 0.0, 0.5]
