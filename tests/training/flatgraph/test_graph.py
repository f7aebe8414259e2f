import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from advisor.catalog import run
from advisor.core import UnsupportedRecipe
from advisor.training import Graph
from tests.builders import must_fail
from tests.measurement.small_models import OPERATORS, Builder, classifier, two_levels

SIDE = 16


def _answers(data: bytes, images: np.ndarray) -> np.ndarray:
    found = [run(data, photo[None]) for photo in images]
    return np.concatenate([each.get("probabilities", each.get("fine")) for each in found])


def _branching() -> bytes:
    """A net with every other kind of operator: pooling, joined branches, sums, products, padding, a reshape."""
    build, image = Builder.with_image(SIDE)
    first = build.convolution(image, 8, 3, 2)
    pool = schema.Pool2DOptionsT(filterHeight=3, filterWidth=3, strideH=1, strideW=1)
    largest = build.operator(OPERATORS.MAX_POOL_2D, [first], build.shape(first), pool)
    average = build.operator(OPERATORS.AVERAGE_POOL_2D, [first], build.shape(first), pool)
    total = build.operator(OPERATORS.ADD, [largest, average], build.shape(first), schema.AddOptionsT())
    swish = build.operator(OPERATORS.HARD_SWISH, [total], build.shape(first))
    product = build.operator(OPERATORS.MUL, [swish, largest], build.shape(first), schema.MulOptionsT())
    joined = build.operator(
        OPERATORS.CONCATENATION, [product, average], (1, SIDE // 2, SIDE // 2, 16), schema.ConcatenationOptionsT(axis=3)
    )
    margins = build.constant(np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32), schema.TensorType.INT32)
    padded = build.operator(
        OPERATORS.PAD, [joined, margins], (1, SIDE // 2 + 2, SIDE // 2 + 2, 16), schema.PadOptionsT()
    )
    shape = build.constant(np.array([1, 16], np.int32), schema.TensorType.INT32)
    flat = build.operator(OPERATORS.RESHAPE, [build.mean(padded), shape], (1, 16), schema.ReshapeOptionsT())
    return build.finish({"image": image}, {"probabilities": build.head(flat, 3)})


def _shuffled() -> bytes:
    """A net with what files of other frameworks have: padding with a value, shuffled channels, a part, a division."""
    build, image = Builder.with_image(SIDE)
    maps = build.convolution(image, 8, 3, 2)
    margins = build.constant(np.array([[0, 0], [1, 0], [0, 1], [0, 0]], np.int32), schema.TensorType.INT32)
    lowest = build.constant(np.array([-9.0], np.float32))
    wide = (1, SIDE // 2 + 1, SIDE // 2 + 1, 8)
    padded = build.operator(OPERATORS.PADV2, [maps, margins, lowest], wide, schema.PadV2OptionsT())
    order = build.constant(np.array([0, 4, 1, 5, 2, 6, 3, 7], np.int32), schema.TensorType.INT32)
    shuffled = build.operator(OPERATORS.GATHER, [padded, order], wide, schema.GatherOptionsT(axis=3))
    begin, size = (
        build.constant(np.array(sides, np.int32), schema.TensorType.INT32) for sides in ([0, 1, 1, 2], [1, 3, 3, 6])
    )
    part = build.operator(OPERATORS.SLICE, [shuffled, begin, size], (1, 3, 3, 6), schema.SliceOptionsT())
    six = build.constant(np.array([6.0], np.float32))
    divided = build.operator(OPERATORS.DIV, [part, six], (1, 3, 3, 6), schema.DivOptionsT())
    return build.finish({"image": image}, {"probabilities": build.head(build.mean(divided), 3)})


def _of_maps() -> bytes:
    """A net with the outputs of a coarse map and of a finer one, each made larger, as heads on maps have them."""
    build, half, whole = Builder(), (1, SIDE // 2, SIDE // 2, 4), (1, SIDE, SIDE, 4)
    image = build.input(SIDE)
    fine = build.convolution(image, 4, 3, 2)
    coarse = build.convolution(fine, 4, 3, 2)
    to_half, to_whole = (
        build.constant(np.array(shape[1:3], np.int32), schema.TensorType.INT32) for shape in (half, whole)
    )
    nearest = schema.ResizeNearestNeighborOptionsT(halfPixelCenters=True)
    larger = build.operator(OPERATORS.RESIZE_NEAREST_NEIGHBOR, [coarse, to_half], half, nearest)
    total = build.operator(OPERATORS.ADD, [larger, fine], half, schema.AddOptionsT())
    linear = schema.ResizeBilinearOptionsT(halfPixelCenters=True)
    scores = build.operator(OPERATORS.RESIZE_BILINEAR, [build.convolution(total, 4), to_whole], whole, linear)
    return build.finish({"image": image}, {"fine": scores, "coarse": build.convolution(coarse, 2)})


@pytest.mark.integration
@pytest.mark.parametrize("make", [lambda: classifier(SIDE), _branching, _shuffled, _of_maps])
def test_it_answers_as_the_runtime_does(make: object) -> None:
    data = make()  # type: ignore[operator]
    graph = Graph.read(data)
    images = np.random.default_rng(0).uniform(-1, 1, (5, SIDE, SIDE, 3)).astype(np.float32)
    np.testing.assert_allclose(graph.run(images, {})[graph.outputs[0]].numpy(), _answers(data, images), atol=1e-5)


def test_kernels_biases_and_the_head_are_found() -> None:
    graph = Graph.read(classifier(SIDE))
    assert list(graph.kernels.values()) == ["CONV_2D", "DEPTHWISE_CONV_2D", "CONV_2D", "FULLY_CONNECTED"]
    assert len(graph.biases) == 4
    assert graph.nodes[-2].output == graph.logits
    assert graph.features == (graph.nodes[-3].output,)


def test_outputs_of_maps_have_no_probabilities_and_a_last_layer_each() -> None:
    graph = Graph.read(_of_maps())
    assert graph.logits is None
    assert len(graph.outputs) == len(graph.features) == 2


def test_weights_written_back_are_those_of_the_file() -> None:
    data = classifier(SIDE)
    graph = Graph.read(data)
    index = next(iter(graph.kernels))
    doubled = 2 * graph.constants[index]
    changed = Graph.read(graph.with_weights({index: doubled}))
    np.testing.assert_array_equal(changed.constants[index], doubled)
    others = set(graph.constants) - {index}
    assert all(np.array_equal(changed.constants[at], graph.constants[at]) for at in others)


def test_an_operator_that_cannot_be_trained_is_named() -> None:
    build, image = Builder.with_image(SIDE)
    floor = build.operator(OPERATORS.FLOOR, [build.convolution(image, 4)], (1, SIDE, SIDE, 4))
    data = build.finish({"image": image}, {"probabilities": build.head(build.mean(floor), 3)})
    must_fail(UnsupportedRecipe, "FLOOR", Graph.read, data)


def test_the_layers_next_to_image_and_answer_are_found_through_what_has_no_weights() -> None:
    graph = Graph.read(two_levels(SIDE))
    assert [step.name for step in graph.first] == ["CONV_2D"]
    assert [step.name for step in graph.last] == ["FULLY_CONNECTED", "FULLY_CONNECTED"]
    assert [step.inputs[0] for step in graph.last] == list(graph.features)
