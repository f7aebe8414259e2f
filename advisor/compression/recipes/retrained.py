"""Forms whose weights learn again: as integers, with most of them 0, or with a few shared values."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from advisor.compression.quantization import rules
from advisor.compression.quantization.clusters import clusters
from advisor.compression.quantization.correction import Grids, correct
from advisor.compression.quantization.quantizer import fitting_images, quantize
from advisor.compression.recipes.base import Recipe, Rung
from advisor.compression.recipes.inputs import Compressed, RecipeInputs
from advisor.compression.recipes.post_training import Prepared

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from advisor.training.flatgraph.graph import Change, Graph
    from advisor.training.flatgraph.learning import Course, FinetuneData
    from advisor.training.flatgraph.weights import Weight

    Floats = NDArray[np.float32]


FITTED_IMAGES = 48
"""Images that pruned kernels are fitted on: their positions give thousands of rows."""


class Retrained(Recipe):
    """A recipe whose weights learn, taught by the float model itself on the training part."""

    needs_images = True
    rung = Rung.TRAINED
    version = 2
    learning_rate = 3e-4
    epochs = 4.0

    def convert(self, model: bytes, material: RecipeInputs, /) -> Compressed:
        """Return the form after its lessons, with how many it took.

        Raises:
            UnsupportedRecipe: the model has an operator that cannot be trained here.
            StageError: training diverged, or an image cannot be read.
        """
        learnt, course = self._learnt(model, material)
        return Compressed(learnt, {"learning": asdict(course), **self._notes(learnt)})

    def _learnt(self, model: bytes, material: RecipeInputs) -> tuple[bytes, Course]:
        from advisor.training.flatgraph.graph import read_graph

        graph = read_graph(model)
        weights = {**_free(graph), **self._weights(graph, material)}
        course = learn(graph, weights, material, self._lesson(material))
        return graph.with_weights({at: _array(one) for at, one in weights.items()}), course

    def _lesson(self, material: RecipeInputs) -> FinetuneData:
        from advisor.training.flatgraph.learning import FinetuneData

        seed = material.images.seed if material.images else 0
        return FinetuneData(self.learning_rate, self.epochs, seconds=material.seconds, seed=seed)

    @abstractmethod
    def _weights(self, graph: Graph, material: RecipeInputs) -> Mapping[int, Weight]:
        """Return what stands for kernels, and for biases that do not start as they are, while they learn."""

    def _notes(self, _learnt: bytes) -> Mapping[str, Any]:
        return {}


def learn(
    graph: Graph,
    weights: Mapping[int, Weight],
    material: RecipeInputs,
    lesson: FinetuneData,
    change: Change | None = None,
) -> Course:
    """Run the lessons on the training part."""
    from advisor.training.flatgraph.learning import learn as taught

    images = material.images
    assert images is not None, "the recipe says that it needs images"
    return taught(graph, weights, images.paths, images.view, lesson, change)


def _free(graph: Graph) -> dict[int, Weight]:
    from advisor.training.flatgraph.weights import Free

    return {index: Free(graph.constants[index]) for index in graph.biases}


def _array(weight: Weight) -> Floats:
    import numpy as np

    return np.asarray(weight.value(), np.float32)


class Pruned(Retrained):
    """A recipe that sets a share of each kernel's weights to 0 and lets the others make up for it.

    They go by magnitude times the size of their input; the others are fitted to what the layer gave, then learn.

    The first layer, depthwise kernels and the head stay whole: they are few weights, and the most easily harmed.

    Args:
        percent: share of weights that become 0.
    """

    def __init__(self, percent: int) -> None:
        self.name = f"pruned_{percent}"
        self.description = f"{percent} % of the weights 0, the rest retrained: less to download"
        self._share = percent / 100

    def _weights(self, graph: Graph, material: RecipeInputs) -> Mapping[int, Weight]:
        from advisor.training.flatgraph.refit import refit
        from advisor.training.flatgraph.weights import Free, Masked

        biases = {step.inputs[1]: step.inputs[2] for step in graph.steps if len(step.inputs) > 2}
        inner = [at for at in _inner(graph) if at in biases]
        found = refit(graph, inner, self._share, _some(material))
        kernels = {at: Masked(one.kernel, one.keep) for at, one in found.items()}
        return {**kernels, **{biases[at]: Free(one.bias) for at, one in found.items()}}

    def _notes(self, learnt: bytes) -> Mapping[str, Any]:
        import numpy as np

        from advisor.training.flatgraph.graph import read_graph

        graph = read_graph(learnt)
        kernels = [graph.constants[at] for at in graph.kernels]
        zeros = sum(int(np.count_nonzero(kernel == 0)) for kernel in kernels)
        return {"zero_share": round(zeros / sum(kernel.size for kernel in kernels), 4)}


class Clustered(Retrained):
    """A recipe that gives each kernel a few values only, which then learn.

    Args:
        values: how many.
    """

    learning_rate = 1e-4

    def __init__(self, values: int) -> None:
        self.name = f"clustered_{values}"
        self.description = f"{values} values a kernel, retrained: less to download"
        self._values = values

    def _weights(self, graph: Graph, _material: RecipeInputs) -> Mapping[int, Weight]:
        from advisor.training.flatgraph.weights import Shared

        return {at: Shared(*clusters(graph.constants[at], self._values)) for at in _inner(graph)}


def _some(material: RecipeInputs) -> Floats:
    """Return a few images of the training part as the model takes them."""
    from advisor.compression.calibration import choose, from_images

    images = material.images
    assert images is not None, "the recipe says that it needs images"
    chosen = choose(images.labels, FITTED_IMAGES, images.seed)
    return from_images([images.paths[at] for at in chosen], images.view)


def _inner(graph: Graph) -> list[int]:
    """Return the kernels of dense convolutions and dense layers without those next to the image and the answer."""
    spared = {step.inputs[1] for step in (*graph.first, *graph.last)}
    return [at for at, name in graph.kernels.items() if at not in spared and name != "DEPTHWISE_CONV_2D"]


class QuantizationAware(Retrained):
    """The recipe ``qat_int8``: weights and activations learn as the integers that they will be.

    Args:
        grids: the values that weights are stored as.
    """

    name = "qat_int8"
    description = "int8 whose weights learnt as integers: what post-training int8 loses, for minutes of training"
    needs_calibration = True
    after = "mixed_int8"
    learning_rate = 1e-4

    def __init__(self, grids: Grids) -> None:
        self._grids = grids

    def convert(self, model: bytes, material: RecipeInputs, /) -> Compressed:
        """Return the integer form after its lessons."""
        from advisor.training.flatgraph.graph import read_graph

        observation = material.observer(model, fitting_images(model, material.calibration))
        spans = Prepared(model, observation).spans()
        graph = read_graph(model)
        weights = {**_free(graph), **self._weights(graph, material)}
        course = learn(graph, weights, material, self._lesson(material), _as_integers(spans))
        learnt = graph.with_weights({at: _array(one) for at, one in weights.items()})
        on_grid = correct(learnt, self._grids, observation, shifted=False)
        return Compressed(quantize(on_grid, rules.eight_bits(), spans), {"learning": asdict(course)})

    def _weights(self, graph: Graph, _material: RecipeInputs) -> Mapping[int, Weight]:
        return _rounded(graph)


def _rounded(graph: Graph) -> dict[int, Weight]:
    from advisor.training.flatgraph.weights import Rounded

    return {at: Rounded(graph.constants[at], name) for at, name in graph.kernels.items()}


def _as_integers(spans: Mapping[int, tuple[float, float]]) -> Change:
    from advisor.training.flatgraph.weights import rounded_activation

    def change(index: int, value: Any) -> Any:
        return rounded_activation(value, *spans[index]) if index in spans else value

    return change
