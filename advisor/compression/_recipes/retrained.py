"""Make files whose weights change: quantized after training, or trained again.

:class:`PostTraining` covers most recipes of `RECIPES`. The others train the float file's weights
in its own graph (`training/_flatgraph/`) to give what the file gave: pruned, clustered, or
quantization-aware. Trained files must be equal bit by bit for equal inputs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from advisor.compression._quantization.correction import correct_model
from advisor.compression._quantization.grid import Grids, cluster_weights
from advisor.compression._quantization.observe import Observation
from advisor.compression._quantization.quantizer import (
    Rules,
    eight_bit_rules,
    fitting_images,
    fitting_inputs,
    quantize_model,
)
from advisor.compression._recipes.base import Compressed, Needs, Recipe, RecipeInputs
from advisor.compression._recipes.byte_grids import BYTES
from advisor.tflite import count, read
from advisor.training import (
    Change,
    Graph,
    Masked,
    Rounded,
    Shared,
    TrainingImages,
    Weight,
    refit_kernels,
    round_activation,
)

MOST_MACS = 5e12
"""Multiply-accumulates of the training images in one run of the float model: about ten minutes, as
203 steps of MobileNetV2 take two. A count replaces the clock, because equal inputs must give equal
files; only ``advisor compress`` can also limit the seconds.
"""

FITTED_IMAGES = 48
"""Images that pruned kernels are fitted on. Their positions give thousands of rows."""


class Retrained(Recipe):
    """A recipe that trains weights to give what the float model gives, on the training part."""

    needs = Needs.TRAINING
    version = 4
    learning_rate = 3e-4
    epochs = 4.0

    def convert(self, model: bytes, inputs: RecipeInputs, /) -> Compressed:
        """Return the trained file, with notes on the training.

        An operator that cannot be trained here is an UnsupportedRecipe, and training that diverges
        is a StageError.
        """
        trained, summary = self._train(model, inputs)
        return Compressed(trained, {"learning": summary, **self._make_notes(trained)})

    def _train(
        self, model: bytes, inputs: RecipeInputs, change: Change | None = None
    ) -> tuple[bytes, Mapping[str, Any]]:
        """Train the kernels and the biases on the training part.

        ``change`` applies to the activations. Return the file, and the course of the
        training as notes.
        """
        from advisor.training import Schedule

        images = inputs.images
        assert images is not None, "the recipe says that it needs images"
        graph = Graph.read(model)
        weights = {index: Weight(graph.constants[index]) for index in graph.biases}
        # A recipe may let a bias start from another value.
        weights |= self._start_weights(graph, images)
        schedule = Schedule(
            self.learning_rate, self.epochs, seconds=inputs.seconds, seed=images.seed
        )
        macs = max(1, count(read(model)).macs)
        most_steps = max(1, int(MOST_MACS / macs / schedule.batch))
        schedule = replace(schedule, most_steps=most_steps)
        summary = schedule.train_weights(graph, weights, images.paths, images.spec, change)
        values = {}
        for index, weight in weights.items():
            values[index] = np.asarray(weight.value(), np.float32)
        return graph.with_weights(values), asdict(summary)

    @abstractmethod
    def _start_weights(self, graph: Graph, images: TrainingImages) -> Mapping[int, Weight]:
        """Return trainable kernels, and biases that start from other values, by tensor index."""

    def _make_notes(self, _trained: bytes) -> Mapping[str, Any]:
        return {}


class Pruned(Retrained):
    """A recipe that sets a share of each kernel's weights, in percent, to 0 and trains the others.

    The weights with the least magnitude times input size become 0. The others are fitted to the
    layer's former output, then trained. The first layer, depthwise kernels and the head are not
    pruned: they have few weights, and pruning harms them most.
    """

    def __init__(self, percent: int) -> None:
        self.name = f"pruned_{percent}"
        self.description = f"{percent} % of the weights 0, the rest retrained: less to download"
        self._share = percent / 100

    def _start_weights(self, graph: Graph, images: TrainingImages) -> Mapping[int, Weight]:
        # A kernel without a bias cannot make up for what its lost weights added on the average.
        biases = {}
        for node in graph.nodes:
            if len(node.inputs) > 2:
                biases[node.inputs[1]] = node.inputs[2]
        inner = [kernel for kernel in _find_inner(graph) if kernel in biases]
        arrays = images.read_training(FITTED_IMAGES)
        refitted = refit_kernels(graph, inner, self._share, arrays)
        kernels = dict[int, Weight]()
        refitted_biases = dict[int, Weight]()
        for kernel, layer in refitted.items():
            kernels[kernel] = Masked(layer.kernel, layer.keep)
            refitted_biases[biases[kernel]] = Weight(layer.bias)
        # The order is that in which the optimizer takes them.
        return {**kernels, **refitted_biases}

    def _make_notes(self, trained: bytes) -> Mapping[str, Any]:
        graph = Graph.read(trained)
        kernels = [graph.constants[index] for index in graph.kernels]
        zeros = sum(int(np.count_nonzero(kernel == 0)) for kernel in kernels)
        return {"zero_share": round(zeros / sum(kernel.size for kernel in kernels), 4)}


class Clustered(Retrained):
    """A recipe that gives each kernel a few shared values and trains those."""

    learning_rate = 1e-4

    def __init__(self, values: int) -> None:
        self.name = f"clustered_{values}"
        self.description = f"{values} values a kernel, retrained: less to download"
        self._values = values

    def _start_weights(self, graph: Graph, _images: TrainingImages) -> Mapping[int, Weight]:
        weights = {}
        for index in _find_inner(graph):
            values, places = cluster_weights(graph.constants[index], self._values)
            weights[index] = Shared(values, places)
        return weights


def _find_inner(graph: Graph) -> list[int]:
    """Return the kernels of convolutions and dense layers that are not next to input or output."""
    spared = {node.inputs[1] for node in (*graph.first, *graph.last)}
    inner = []
    for index, name in graph.kernels.items():
        if index not in spared and name != "DEPTHWISE_CONV_2D":
            inner.append(index)
    return inner


class QuantizationAware(Retrained):
    """The recipe ``qat_int8``: quantization-aware training of weights and activations."""

    name = "qat_int8"
    description = (
        "int8 with weights trained as integers: regains what int8 loses, for minutes of training"
    )
    needs_calibration = True
    after = "mixed_int8"
    learning_rate = 1e-4

    def convert(self, model: bytes, inputs: RecipeInputs, /) -> Compressed:
        """Return the trained integer file."""
        observation = inputs.observer(model, fitting_images(model, inputs.calibration))
        ranges = observation.compute_ranges()

        def round_known(index: int, value: Any) -> Any:
            return round_activation(value, *ranges[index]) if index in ranges else value

        trained, summary = self._train(model, inputs, round_known)
        on_grid = correct_model(trained, BYTES, observation, shifted=False)
        return Compressed(
            quantize_model(on_grid, eight_bit_rules(), ranges), {"learning": summary}
        )

    def _start_weights(self, graph: Graph, _images: TrainingImages) -> Mapping[int, Weight]:
        return {
            index: Rounded(graph.constants[index], name) for index, name in graph.kernels.items()
        }


def prepare_model(model: bytes, inputs: RecipeInputs, grids: Grids) -> tuple[bytes, Observation]:
    """Return the file with its weights on their grid and corrected biases, and its activations."""
    only = inputs.observer.only
    observation = only or inputs.observer(model, fitting_inputs(model, inputs.calibration))
    corrected = inputs.observer.corrected
    if grids not in corrected:
        corrected[grids] = correct_model(model, grids, observation)
    return corrected[grids], observation


class PostTraining(Recipe):
    """A recipe that puts weights on a grid, corrects the biases, and stores values as integers,
    or leaves them float.

    Args:
        make_rules: returns the quantizer's rules; None leaves the file float.
        bits: of an activation; 0 if activations stay float.
        finish: the last edit of the file.
    """

    needs_calibration = True
    needs = Needs.CALIBRATION
    any_graph = True
    grids: Grids

    def __init__(
        self,
        name: str,
        grids: Grids,
        make_rules: Callable[[], Rules] | None,
        description: str,
        *,
        bits: int = 0,
        finish: Callable[[bytes], bytes] = bytes,
    ) -> None:
        self.name = name
        self.description = description
        self.version = 6 if bits else 7
        self.grids = grids
        self._rules = make_rules
        self._bits = bits
        self._finish = finish

    def convert(self, model: bytes, inputs: RecipeInputs, /) -> Compressed:
        """Return the compressed file."""
        prepared, observation = prepare_model(model, inputs, self.grids)
        if self._rules is None:
            return Compressed(prepared)
        ranges = observation.compute_ranges(self._bits) if self._bits else None
        quantized = self._finish(quantize_model(prepared, self._rules(), ranges))
        # Activations are known of the main graph alone: the others, such as the body of a loop,
        # stay float.
        float_operators = list[str]()
        for graph in read(model).subgraphs[1:]:
            float_operators += [operator.name for operator in graph.operators]
        notes = {"float_operators": float_operators} if float_operators and self._bits else {}
        return Compressed(quantized, notes)
