"""Observe and correct a float model once for all its forms.

The stage of calibration calls :func:`prepare_all` through `prepare_file` and keeps the files of
:class:`PreparedModel`; the recipes load them. Their names and contents are a format on disk: a
change needs a new version of that stage. If the recipes would give other bytes, too, raise
their versions as well (`correction.py` says why).

Models that are similar share work. Two models with the same layers up to some tensor have the same
activations up to there: the compared model and the one that ships share all layers but the head,
or all layers below those that fine-tuning trains.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.compression._quantization.correction import correct_model
from advisor.compression._quantization.grid import Grids
from advisor.compression._quantization.layers import find_layers, read_values
from advisor.compression._quantization.observe import (
    Activation,
    Observation,
    Observer,
    observe_activations,
)
from advisor.core import parse
from advisor.tflite import Model, read

FACTS = "prepared.json"

ARRAYS = "activations.npz"

CORRECTED = "corrected-{}.tflite"

Corrected = Mapping[int, "NDArray[np.float64]"]
"""Kernel and bias of a corrected layer, by tensor index."""


@dataclass(frozen=True, eq=False)
class PreparedModel:
    """The calibration of a float model, shared by its recipes.

    Attributes:
        activations: by tensor index.
        source: the tensor index of the model's input.
        corrected: the file with corrected weights for each grid.
        tensors: by tensor index, the hash of all that the tensor depends on.
    """

    activations: Mapping[int, Activation]
    source: int
    corrected: Mapping[Grids, bytes]
    tensors: Mapping[int, str]

    def observer(self) -> Observer:
        """Return an observer of this model that need not run it."""
        return Observer(Observation(self.activations, {}, (self.source,)), self.corrected)

    def save(self, folder: Path) -> None:
        """Write the files that :meth:`load` reads."""
        arrays = dict[str, Any]()
        for index, activation in self.activations.items():
            for name, value in vars(activation).items():
                arrays[f"{index}-{name}"] = value
        np.savez(folder / ARRAYS, **arrays)
        grids = []
        for number, (grids_of_file, data) in enumerate(self.corrected.items()):
            (folder / CORRECTED.format(number)).write_bytes(data)
            grids.append(asdict(grids_of_file))
        facts = {"source": self.source, "grids": grids, "tensors": self.tensors}
        (folder / FACTS).write_text(json.dumps(facts), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> PreparedModel:
        """Read what :meth:`save` wrote."""
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        by_index: dict[int, dict[str, Any]] = {}
        with np.load(folder / ARRAYS, allow_pickle=False) as arrays:
            for key in arrays.files:
                index, name = key.split("-")
                by_index.setdefault(int(index), {})[name] = arrays[key]
        activations = {
            index: Activation(**arrays_of_tensor) for index, arrays_of_tensor in by_index.items()
        }
        corrected = dict[Grids, bytes]()
        for number, grids in enumerate(facts["grids"]):
            corrected[parse(Grids, grids)] = (folder / CORRECTED.format(number)).read_bytes()
        # JSON knows texts alone as keys.
        tensors = {int(index): digest for index, digest in facts["tensors"].items()}
        return cls(activations, facts["source"], corrected, tensors)


def prepare_all(
    data: bytes,
    images: NDArray[np.float32],
    grids: Sequence[Grids],
    earlier: PreparedModel | None = None,
) -> PreparedModel:
    """Observe a float model on normalised images, float32 (n, S, S, 3), and correct it.

    It is corrected for each of the ``grids``. What the ``earlier`` similar model, on the same
    images, has in common with it is not computed again. Raises as :func:`observe_activations`.
    """
    model = read(data)
    tensors = tensor_hashes(model)
    before = PreparedModel({}, 0, {}, {}) if earlier is None else earlier
    # Tensors with one hash depend on the same things, so they have the same values.
    index_of_hash = {digest: index for index, digest in before.tensors.items()}
    same_tensors = dict[int, int]()
    known_activations = dict[int, Activation]()
    for index, digest in tensors.items():
        if digest not in index_of_hash:
            continue
        earlier_index = index_of_hash[digest]
        same_tensors[index] = earlier_index
        if earlier_index in before.activations:
            known_activations[index] = before.activations[earlier_index]
    rounded = {}
    for grids_of_file in grids:
        rounded[grids_of_file] = _reuse_rounded(model, same_tensors, before, grids_of_file)
    # The covariance of a layer is only spared if no grid needs it any more.
    everywhere = set.intersection(*map(set, rounded.values())) if rounded else set[int]()
    observation = observe_activations(data, images, known_activations, everywhere)
    corrected: dict[Grids, bytes] = {}
    for grids_of_file in grids:
        layers = _find_shared(model, corrected, grids_of_file) | rounded[grids_of_file]
        corrected[grids_of_file] = correct_model(data, grids_of_file, observation, known=layers)
    return PreparedModel(observation.activations, observation.sources[0], corrected, tensors)


def _find_shared(
    model: Model, corrected: Mapping[Grids, bytes], grids: Grids
) -> dict[int, Corrected]:
    """Return the layers that are corrected for the same grid already, by their kernel's index.

    ``corrected`` are files of the same model for other grids.
    """
    shared = dict[int, Corrected]()
    for other_grids, data in corrected.items():
        tensors = read(data).tensors
        for layer in find_layers(model):
            if other_grids.of(layer.depthwise) == grids.of(layer.depthwise):
                kernel = read_values(tensors[layer.kernel])
                bias = read_values(tensors[layer.bias])
                shared[layer.kernel] = {layer.kernel: kernel, layer.bias: bias}
    return shared


def _reuse_rounded(
    model: Model, same_tensors: Mapping[int, int], earlier: PreparedModel, grids: Grids
) -> dict[int, Corrected]:
    """Return the layers whose output an earlier model has too, by the index of their kernels.

    ``same_tensors`` names the tensor of the earlier model for each tensor with the same values.
    """
    if grids not in earlier.corrected:
        return {}
    earlier_model = read(earlier.corrected[grids])
    rounded = dict[int, Corrected]()
    inputs_by_output = {
        operator.outputs[0]: operator.inputs for operator in earlier_model.operators
    }
    outputs_by_kernel = {}
    for operator in model.operators:
        if len(operator.inputs) > 2:
            outputs_by_kernel[operator.inputs[1]] = operator.outputs[0]
    for layer in find_layers(model):
        output = same_tensors.get(outputs_by_kernel[layer.kernel])
        if output is not None:
            _, kernel, bias = inputs_by_output[output][:3]
            kernel_values = read_values(earlier_model.tensors[kernel])
            bias_values = read_values(earlier_model.tensors[bias])
            rounded[layer.kernel] = {layer.kernel: kernel_values, layer.bias: bias_values}
    return rounded


def tensor_hashes(model: Model) -> dict[int, str]:
    """Return, for each tensor of the main graph, a hash of all that it depends on.

    These are its content, or its operator with options and inputs.
    """
    hashes: dict[int, str] = {}
    for index, tensor in enumerate(model.tensors):
        digest = sha256(repr((tensor.shape, tensor.dtype, tensor.is_constant)).encode())
        digest.update(tensor.buffer)
        hashes[index] = digest.hexdigest()
    for operator in model.operators:
        sources = [hashes.get(index, "") for index in operator.inputs]
        for place, index in enumerate(operator.outputs):
            shape = model.tensors[index].shape
            # The place among the outputs: two outputs of one operator differ by nothing else.
            text = repr((operator.name, sorted(operator.options.items()), sources, place, shape))
            hashes[index] = sha256(text.encode()).hexdigest()
    return hashes
