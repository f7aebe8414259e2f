"""Observe and correct a float model once for all its forms, and reuse what a similar model has in common with it.

Two models with the same layers up to some tensor have the same activations up to there: the compared model and the one
that ships share all layers but the head, or all layers below those that fine-tuning trains.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.compression.quantization.correction import correct
from advisor.compression.quantization.grid import Grids
from advisor.compression.quantization.layers import layers, values
from advisor.compression.quantization.observe import Activation, Observation, Observer, observe
from advisor.core.codec import parse
from advisor.tflite.model import Model, read

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Corrected = Mapping[int, "NDArray[np.float64]"]
"""Kernel and bias of a corrected layer, by tensor index."""

FACTS, ARRAYS = "prepared.json", "activations.npz"


@dataclass(frozen=True, eq=False)
class PreparedModel:
    """The calibration of a float model, shared by its recipes.

    Attributes:
        activations: see :class:`Observation`.
        source: tensor index of the model's input.
        corrected: the model corrected for each grid.
        tensors: hash of all that a tensor depends on, by its index.
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
        import numpy as np

        arrays: dict[str, Any] = {
            f"{index}-{name}": value for index, one in self.activations.items() for name, value in vars(one).items()
        }
        np.savez(folder / ARRAYS, **arrays)
        for number, data in enumerate(self.corrected.values()):
            (folder / _file(number)).write_bytes(data)
        facts = {"source": self.source, "grids": [asdict(each) for each in self.corrected], "tensors": self.tensors}
        (folder / FACTS).write_text(json.dumps(facts), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> PreparedModel:
        """Read what :meth:`save` wrote."""
        import numpy as np

        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        by_index: dict[int, dict[str, Any]] = {}
        with np.load(folder / ARRAYS, allow_pickle=False) as kept:
            for key in kept.files:
                index, name = key.split("-")
                by_index.setdefault(int(index), {})[name] = kept[key]
        activations = {index: Activation(**found) for index, found in by_index.items()}
        corrected = {
            parse(Grids, grids): (folder / _file(number)).read_bytes() for number, grids in enumerate(facts["grids"])
        }
        return cls(activations, facts["source"], corrected, {int(at): key for at, key in facts["tensors"].items()})


def _file(number: int) -> str:
    return f"corrected-{number}.tflite"


def prepare_all(
    data: bytes, images: NDArray[np.float32], grids: Sequence[Grids], earlier: PreparedModel | None = None
) -> PreparedModel:
    """Observe a float model on normalised images and correct it for each grid.

    Args:
        data: a float ``.tflite``.
        images: float32 (n, S, S, 3).
        grids: see :class:`Grids`.
        earlier: of a similar model, on the same images. What both models have in common is not computed again.

    Raises:
        UsageError: the file is damaged.
        StageError: an activation is not finite.
    """
    model = read(data)
    tensors = tensor_hashes(model)
    found = {} if earlier is None else {key: index for index, key in earlier.tensors.items()}
    done = {index: found[key] for index, key in tensors.items() if key in found}
    known = {
        index: earlier.activations[other]
        for index, other in done.items()
        if earlier is not None and other in earlier.activations
    }
    rounded = {each: _rounded(model, done, earlier, each) for each in grids}
    everywhere = set.intersection(*map(set, rounded.values())) if rounded else set[int]()
    observation = observe(data, images, known, everywhere)
    corrected: dict[Grids, bytes] = {}
    for each in grids:
        corrected[each] = correct(data, each, observation, known={**_shared(model, corrected, each), **rounded[each]})
    return PreparedModel(observation.activations, observation.sources[0], corrected, tensors)


def _shared(model: Model, corrected: Mapping[Grids, bytes], grids: Grids) -> dict[int, Corrected]:
    """Return the layers that other grids of the same model put on the same grid, by the index of their kernels."""
    found = dict[int, Corrected]()
    for other, data in corrected.items():
        tensors = read(data).tensors
        for layer in layers(model):
            if other.of(layer.depthwise) == grids.of(layer.depthwise):
                found[layer.kernel] = {index: values(tensors[index]) for index in (layer.kernel, layer.bias)}
    return found


def _rounded(
    model: Model, done: Mapping[int, int], earlier: PreparedModel | None, grids: Grids
) -> dict[int, Corrected]:
    """Return the layers whose output an earlier model has too, by the index of their kernels."""
    if earlier is None or grids not in earlier.corrected:
        return {}
    other, found = read(earlier.corrected[grids]), dict[int, Corrected]()
    theirs = {operator.outputs[0]: operator.inputs for operator in other.operators}
    ours = {operator.inputs[1]: operator.outputs[0] for operator in model.operators if len(operator.inputs) > 2}
    for layer in layers(model):
        if (output := done.get(ours[layer.kernel])) is not None:
            kernel, bias = (values(other.tensors[index]) for index in theirs[output][1:3])
            found[layer.kernel] = {layer.kernel: kernel, layer.bias: bias}
    return found


def tensor_hashes(model: Model) -> dict[int, str]:
    """Return a hash of all that each tensor of the main graph depends on: content, or operator, options and inputs."""
    found: dict[int, str] = {}
    for index, tensor in enumerate(model.tensors):
        own = sha256(repr((tensor.shape, tensor.dtype, tensor.is_constant)).encode())
        own.update(tensor.buffer)
        found[index] = own.hexdigest()
    for operator in model.operators:
        sources = [found.get(index, "") for index in operator.inputs]
        for place, index in enumerate(operator.outputs):
            shape = model.tensors[index].shape
            text = repr((operator.name, sorted(operator.options.items()), sources, place, shape))
            found[index] = sha256(text.encode()).hexdigest()
    return found
