"""Run ai-edge-quantizer by rules for operators,
on a model that was observed once for all its forms.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from advisor.compression._quantization.grid import Grids
from advisor.compression._quantization.layers import correct_model, find_layers, read_values
from advisor.compression._quantization.observe import (
    Activation,
    Observation,
    Observer,
    observe_activations,
)
from advisor.core import StageError, UnsupportedRecipe, message_of, parse
from advisor.tflite import IN_FLOAT, Model, pack, read, unpack

if TYPE_CHECKING:
    from advisor.compression._quantization.observe import Inputs, Range

Rules = list[dict[str, Any]]
"""A quantization recipe of ai-edge-quantizer."""

_REFUSALS = (
    ValueError,
    RuntimeError,
    KeyError,
    NotImplementedError,
    TypeError,
    IndexError,
    AttributeError,
)
"""Errors that ai-edge-quantizer raises for a graph that it cannot quantize;
it has no error class of its own.
"""

FACTS = "prepared.json"
ARRAYS = "activations.npz"
CORRECTED = "corrected-{}.tflite"


def quantize_model(model: bytes, rules: Rules, ranges: Mapping[int, Range] | None = None) -> bytes:
    """Return a float model quantized by ai-edge-quantizer with its rules by operator.

    ``ranges`` of tensors by their index are for rules that quantize activations. They are known of
    the main graph alone: other graphs, such as the body of a loop, stay float then. A model that
    the quantizer refuses is an UnsupportedRecipe.
    """
    from ai_edge_quantizer import quantizer

    model = _with_unique_names(model)
    if ranges:
        rules = [*rules, *_make_no_rules(model)]
    # The calibrator shows a progress bar.
    with contextlib.redirect_stderr(io.StringIO()):
        tool = quantizer.Quantizer(model)
        tool.load_quantization_recipe(rules)
        try:
            statistics = None
            if ranges and tool.need_calibration:
                statistics = _make_statistics(model, ranges)
            result = tool.quantize(
                statistics, enable_progress_bar=False, enable_progress_report=False
            )
        except _REFUSALS as error:
            raise UnsupportedRecipe(
                f"the quantizer refuses the model: {message_of(error)}"
            ) from error
    return bytes(result.quantized_model)


def _with_unique_names(data: bytes) -> bytes:
    """Return a file in which no two tensors have one name, as the quantizer knows them by name."""
    known = set[str]()
    repeated = dict[tuple[int, int], str]()
    for number, graph in enumerate(read(data).subgraphs):
        for place, tensor in enumerate(graph.tensors):
            if tensor.name in known:
                repeated[number, place] = f"{tensor.name}#{number}.{place}"
            known.add(repeated.get((number, place), tensor.name))
    if not repeated:
        return data
    tables = unpack(data)
    for (number, place), name in repeated.items():
        tables.subgraphs[number].tensors[place].name = name.encode()
    return pack(tables)


def _make_no_rules(data: bytes) -> Rules:
    """Return rules that leave every graph but the main one as it is,
    and what follows :data:`IN_FLOAT`.

    Constant matrices that follow it have 8 bits in the file, and are read as floats.
    """
    from ai_edge_quantizer import qtyping, recipe_manager

    manager = recipe_manager.RecipeManager()
    model = read(data)
    floats = set[int]()
    for operator in model.operators:
        names = [model.tensors[index].name for index in operator.outputs]
        if floats & set(operator.inputs) or any(IN_FLOAT in name for name in names):
            floats |= set(operator.outputs)
            _leave(manager, *names)
            if operator.name == "BATCH_MATMUL":
                manager.add_weight_only_config(
                    _join_scope(*names), qtyping.TFLOperationName.BATCH_MATMUL, num_bits=8
                )
    for graph in model.subgraphs[1:]:
        # What a graph takes and gives counts as an operator each.
        results = [operator.outputs for operator in graph.operators]
        for tensors in (*results, graph.inputs, graph.outputs):
            _leave(manager, *(graph.tensors[index].name for index in tensors))
    return list(manager.get_quantization_recipe())


def _leave(manager: Any, *names: str) -> None:
    """Add a rule that leaves an operator as it is;
    the quantizer identifies it by the names of its outputs.
    """
    from ai_edge_quantizer import algorithm_manager, qtyping

    every = qtyping.TFLOperationName.ALL_SUPPORTED
    keep = algorithm_manager.AlgorithmName.NO_QUANTIZE
    manager.add_quantization_config(_join_scope(*names), every, algorithm_key=keep)


def _join_scope(*names: str) -> str:
    return f"^{''.join(f'{re.escape(name)};' for name in names)}$"


def _make_statistics(model: bytes, ranges: Mapping[int, Range]) -> dict[str, dict[str, Any]]:
    """Return ranges in the format of the quantizer's own calibration:
    by name, arrays of the tensor's rank.
    """
    tensors = read(model).tensors
    statistics = {}
    for index, (low, high) in ranges.items():
        shape = (1,) * len(tensors[index].shape)
        statistics[tensors[index].name] = {
            "min": np.full(shape, low, np.float32),
            "max": np.full(shape, high, np.float32),
        }
    return statistics


def fitting_images(model: bytes, images: Inputs | None) -> NDArray[np.float32]:
    """Return the calibration images after checking that they fit the model's input.

    They are refused with a StageError, and a model of several inputs, or samples,
    with an UnsupportedRecipe.
    """
    inputs = read(model).inputs
    if len(inputs) != 1 or isinstance(images, tuple):
        raise UnsupportedRecipe(
            f"the model has {len(inputs)} inputs, and images fill one",
            "give samples of every input with --samples",
        )
    shape = inputs[0].shape
    if images is None or not len(images):
        raise StageError("calibration images are needed and none were given")
    if (1, *images.shape[1:]) != shape or images.dtype != np.float32:
        raise StageError(
            f"calibration images are {images.dtype} {images.shape[1:]}, the model takes {shape}"
        )
    if not np.isfinite(images).all():
        raise StageError("calibration images hold values that are not finite")
    return images


def fitting_inputs(model: bytes, given: Inputs | None) -> tuple[NDArray[Any], ...]:
    """Return an array for each input of the model, its first axis the samples,
    after checking that they fit.

    ``given`` are images for a model of one input, or a tuple of arrays in the order of its inputs;
    else a StageError.
    """
    if not isinstance(given, tuple):
        return (fitting_images(model, given),)
    wanted = read(model).inputs
    if len(given) != len(wanted) or len(set(map(len, given))) != 1:
        raise StageError(f"{len(given)} arrays of samples for {len(wanted)} inputs")
    for tensor, array in zip(wanted, given, strict=True):
        if array.shape[1:] != tensor.shape or str(array.dtype) != tensor.dtype:
            raise StageError(
                f"samples of input '{tensor.name}' are {array.dtype} {array.shape[1:]}, "
                f"the model takes {tensor.dtype} {tensor.shape}"
            )
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise StageError(f"samples of input '{tensor.name}' hold values that are not finite")
    return given


def read_shipped_rules(name: str) -> Rules:
    """Return one of ai-edge-quantizer's own recipes, by its name."""
    from ai_edge_quantizer import recipe

    return list(getattr(recipe, name)())


def dynamic_rules() -> Rules:
    """Return rules for dynamic kernels;
    depthwise ones stay float, as no runtime runs them fast (4x slower on x86).
    """
    from ai_edge_quantizer import algorithm_manager, qtyping, recipe_manager

    manager = recipe_manager.RecipeManager()
    manager.add_dynamic_config(".*", qtyping.TFLOperationName.ALL_SUPPORTED, num_bits=8)
    manager.add_quantization_config(
        ".*",
        qtyping.TFLOperationName.DEPTHWISE_CONV_2D,
        algorithm_key=algorithm_manager.AlgorithmName.NO_QUANTIZE,
    )
    return list(manager.get_quantization_recipe())


def four_bit_rules() -> Rules:
    """Return rules for 4-bit kernels;
    depthwise ones take 8 bits, as 4 bits harm them and they are small.
    """
    from ai_edge_quantizer import qtyping, recipe_manager

    manager = recipe_manager.RecipeManager()
    manager.add_weight_only_config(".*", qtyping.TFLOperationName.ALL_SUPPORTED, num_bits=4)
    manager.add_weight_only_config(".*", qtyping.TFLOperationName.DEPTHWISE_CONV_2D, num_bits=8)
    return list(manager.get_quantization_recipe())


def eight_bit_rules(but: Collection[str] = (), per_channel: bool = True) -> Rules:
    """Return rules for 8-bit weights and activations,
    one step for each output channel of a kernel or one for the kernel.

    Operators stay float whose output tensors have the names ``but``, and divisions: a kernel of
    integers ends at a divisor that rounds to zero.
    """
    from ai_edge_quantizer import algorithm_manager, qtyping, recipe_manager

    every = qtyping.TFLOperationName.ALL_SUPPORTED
    steps = (
        qtyping.QuantGranularity.CHANNELWISE
        if per_channel
        else qtyping.QuantGranularity.TENSORWISE
    )
    manager = recipe_manager.RecipeManager()
    manager.add_static_config(
        ".*", every, activation_num_bits=8, weight_num_bits=8, weight_granularity=steps
    )
    keep = algorithm_manager.AlgorithmName.NO_QUANTIZE
    manager.add_quantization_config(".*", qtyping.TFLOperationName.DIV, algorithm_key=keep)
    for name in but:
        _leave(manager, name)
    return list(manager.get_quantization_recipe())


# Observe and correct a float model once for all its forms,
# and reuse what a similar model has in common with it.
#
# Two models with the same layers up to some tensor have the same activations up to there: the
# compared model and the one that ships share all layers but the head, or all layers below those
# that fine-tuning trains.

Corrected = Mapping[int, "NDArray[np.float64]"]
"""Kernel and bias of a corrected layer, by tensor index."""


@dataclass(frozen=True, eq=False)
class PreparedModel:
    """The calibration of a float model, shared by its recipes.

    Its activations, the tensor index of its input, the model corrected for each grid, and, by the
    index of each tensor, the hash of all that it depends on.
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
    """Observe a float model on normalised images, float32 (n, S, S, 3),
    and correct it for each grid.

    What the ``earlier`` similar model, on the same images,
    has in common with it is not computed again. Raises as :func:`observe`.
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
    rounded = {
        grids_of_file: _reuse_rounded(model, same_tensors, before, grids_of_file)
        for grids_of_file in grids
    }
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
    """Return the layers that other grids of the same model put on the same grid,
    by the index of their kernels.
    """
    shared = dict[int, Corrected]()
    for other_grids, data in corrected.items():
        tensors = read(data).tensors
        for layer in find_layers(model):
            if other_grids.of(layer.depthwise) == grids.of(layer.depthwise):
                shared[layer.kernel] = {
                    index: read_values(tensors[index]) for index in (layer.kernel, layer.bias)
                }
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
    """Return a hash of all that each tensor of the main graph depends on:
    content, or operator, options and inputs.
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
