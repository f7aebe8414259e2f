"""The program in a Core ML package, read back and computed in numpy by what Core ML's documents say of each operator.

It stands in for Core ML, which runs on Apple devices only. For child processes: coremltools is loaded.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from advisor.integrations.coreml import without_frameworks

Array = np.ndarray


def answers(package: Path, images: Array) -> tuple[list[str], Array]:
    """Return the labels, and the probabilities (N, classes) of RGB images (N, S, S, 3) from 0 to 255."""
    without_frameworks()
    import coremltools as ct
    from coremltools.converters.mil.frontend.milproto.load import load

    model = ct.models.MLModel(str(package), skip_model_load=True)
    spec = model.get_spec()
    program = load(spec, specification_version=spec.specificationVersion, file_weights_dir=model.weights_dir)
    main = program.functions["main"]
    rows = [_run(main, np.moveaxis(image.astype(np.float32), 2, 0)[None]) for image in images]
    classify = next(operation for operation in main.operations if operation.op_type == "classify")
    return [str(label) for label in _value(classify.inputs["classes"], {})], np.concatenate(rows)


def description(package: Path) -> dict[str, Any]:
    without_frameworks()
    import coremltools as ct

    spec = ct.models.MLModel(str(package), skip_model_load=True).get_spec()
    said, image = spec.description, spec.description.input[0]
    return {
        "about": said.metadata.shortDescription,
        "licence": said.metadata.license,
        "input": (image.name, image.type.imageType.width, image.type.imageType.height),
        "outputs": [output.name for output in said.output],
    }


def _run(main: Any, image: Array) -> Array:
    values: dict[str, Any] = {next(iter(main.inputs)): image}
    for operation in main.operations:
        if operation.op_type == "classify":
            found: Array = values[operation.inputs["probabilities"].name]
            return found
        if operation.op_type == "const":
            continue
        given = {name: _value(entry, values) for name, entry in operation.inputs.items() if entry is not None}
        made = getattr(_Operators, operation.op_type)(**given)
        for output, value in zip(operation.outputs, made if isinstance(made, list) else [made], strict=True):
            values[output.name] = value
    raise AssertionError("the program has no classifier")


def _value(entry: Any, values: dict[str, Any]) -> Any:
    if isinstance(entry, (list, tuple)):
        return [_value(each, values) for each in entry]
    value = values.get(entry.name, entry.val)
    if isinstance(value, np.ndarray) and value.dtype == np.float16:
        return value.astype(np.float32)
    return getattr(value, "val", value)


class _Operators:
    """Operators of iOS 16 by their names."""

    @staticmethod
    def conv(
        x: Array, weight: Array, strides: Any, pad: Any, dilations: Any, groups: Any, bias: Any = 0, **_: Any
    ) -> Array:
        top, bottom, left, right = (int(each) for each in pad)
        wide = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
        down, across = (int(each) for each in dilations)
        reach = [(size - 1) * step + 1 for size, step in zip(weight.shape[2:], (down, across), strict=True)]
        windows = sliding_window_view(wide, reach, axis=(2, 3))[:, :, :: strides[0], :: strides[1], ::down, ::across]
        _, channels, rows, columns = windows.shape[:4]
        grouped = windows.reshape(int(groups), channels // int(groups), *windows.shape[2:])
        kernels = weight.reshape(int(groups), -1, *weight.shape[1:])
        found = np.einsum("gcyxhw,gochw->goyx", grouped, kernels, optimize=True)
        return found.reshape(1, -1, rows, columns) + np.reshape(bias, (1, -1, 1, 1))

    @staticmethod
    def _windows(x: Array, sizes: Any, strides: Any, pad: Any, fill: float) -> Array:
        top, bottom, left, right = (int(each) for each in pad)
        wide = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)
        return sliding_window_view(wide, tuple(sizes), axis=(2, 3))[:, :, :: strides[0], :: strides[1]]

    @classmethod
    def max_pool(cls, x: Array, kernel_sizes: Any, strides: Any, pad: Any, **_: Any) -> Array:
        found: Array = cls._windows(x, kernel_sizes, strides, pad, -np.inf).max(axis=(4, 5))
        return found

    @classmethod
    def avg_pool(
        cls, x: Array, kernel_sizes: Any, strides: Any, pad: Any, exclude_padding_from_average: Any, **_: Any
    ) -> Array:
        assert exclude_padding_from_average
        found: Array = np.nanmean(cls._windows(x, kernel_sizes, strides, pad, np.nan), axis=(4, 5))
        return found

    @staticmethod
    def pad(x: Array, pad: Any, constant_val: Any = 0, mode: Any = "constant") -> Array:
        assert mode == "constant"
        pairs = [tuple(pair) for pair in np.reshape(pad, (-1, 2))]
        return np.pad(x, [(0, 0)] * (x.ndim - len(pairs)) + pairs, constant_values=float(constant_val))

    @staticmethod
    def slice_by_index(
        x: Array, begin: Any, end: Any, stride: Any = None, begin_mask: Any = None, end_mask: Any = None, **_: Any
    ) -> Array:
        places = []
        for axis in range(x.ndim):
            first = None if begin_mask is not None and begin_mask[axis] else int(begin[axis])
            last = None if end_mask is not None and end_mask[axis] else int(end[axis])
            places.append(slice(first, last, 1 if stride is None else int(stride[axis])))
        return x[tuple(places)]

    @staticmethod
    def softmax(x: Array, axis: Any) -> Array:
        powers = np.exp(x - x.max(axis=int(axis), keepdims=True))
        found: Array = powers / powers.sum(axis=int(axis), keepdims=True)
        return found

    @staticmethod
    def concat(values: Any, axis: Any, interleave: Any = False) -> Array:
        assert not interleave
        return np.concatenate(values, int(axis))

    @staticmethod
    def cast(x: Array, dtype: Any) -> Array:
        assert str(dtype) in ("fp16", "fp32")
        return x

    linear = staticmethod(lambda x, weight, bias=0: x @ weight.T + bias)
    reduce_mean = staticmethod(lambda x, axes, keep_dims: np.mean(x, axis=tuple(axes), keepdims=bool(keep_dims)))
    split = staticmethod(lambda x, num_splits, axis, **_: np.split(x, int(num_splits), int(axis)))
    sigmoid_hard = staticmethod(lambda x, alpha, beta: np.clip(float(alpha) * x + float(beta), 0, 1))
    add = staticmethod(lambda x, y: x + y)
    sub = staticmethod(lambda x, y: x - y)
    mul = staticmethod(lambda x, y: x * y)
    relu = staticmethod(lambda x: np.maximum(x, 0))
    relu6 = staticmethod(lambda x: np.clip(x, 0, 6))
    tanh = staticmethod(lambda x: np.tanh(x))
    sigmoid = staticmethod(lambda x: 1 / (1 + np.exp(-x)))
    reshape = staticmethod(lambda x, shape: x.reshape([int(side) for side in shape]))
    transpose = staticmethod(lambda x, perm: np.transpose(x, perm))
