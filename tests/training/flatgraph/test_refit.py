import numpy as np
import pytest

from advisor.training import Graph, read_graph, refit_kernels
from advisor.training._flatgraph.retraining import Refitted
from tests.measurement.small_models import Builder

pytestmark = pytest.mark.integration

SIDE = 16
IMAGES = np.random.default_rng(0).uniform(-1, 1, (24, SIDE, SIDE, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def graph() -> Graph:
    build = Builder()
    image = build.input(SIDE)
    last = build.convolution(build.convolution(build.convolution(image, 24, 3, 2), 32, 3), 40)
    return read_graph(build.finish({"image": image}, {"probabilities": build.head(build.mean(last), 4)}))


def _biases(graph: Graph) -> dict[int, int]:
    return {step.inputs[1]: step.inputs[2] for step in graph.nodes if len(step.inputs) > 2}


def _features(graph: Graph, found: dict[int, Refitted], fitted: bool) -> np.ndarray:
    """The features with kernels thinned, refitted or as they were."""
    weights: dict[int, np.ndarray] = {}
    for index, one in found.items():
        weights[index] = one.kernel if fitted else graph.constants[index] * one.keep
        if fitted:
            weights[_biases(graph)[index]] = one.bias
    return _level(graph, weights)


def _level(graph: Graph, weights: dict[int, np.ndarray]) -> np.ndarray:
    """The features of the one level that this graph has."""
    (level,) = graph.features
    return np.asarray(graph.run(IMAGES, weights)[level])


def test_the_share_asked_for_is_zero(graph: Graph) -> None:
    for one in refit_kernels(graph, list(graph.kernels)[1:-1], 0.5, IMAGES).values():
        assert one.keep.mean() == pytest.approx(0.5, abs=0.001)
        np.testing.assert_array_equal(one.kernel[one.keep == 0], 0)


def test_refitted_layers_come_nearer_to_the_whole_model(graph: Graph) -> None:
    found = dict(refit_kernels(graph, list(graph.kernels)[1:-1], 0.5, IMAGES))
    whole = _level(graph, {})
    errors = [np.square(_features(graph, found, fitted) - whole).mean() for fitted in (False, True)]
    assert errors[1] < 0.5 * errors[0]


def test_a_model_that_loses_nothing_stays_as_it_is(graph: Graph) -> None:
    found = dict(refit_kernels(graph, list(graph.kernels)[1:-1], 0.0, IMAGES))
    whole = _level(graph, {})
    np.testing.assert_allclose(_features(graph, found, True), whole, atol=0.02 * np.abs(whole).max())
