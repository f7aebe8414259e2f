"""Compare the export of a file in another format with the file: their answers to the same inputs.

Integrations call :func:`compare_export` when they have made an export, in the child process that
made it. The figures are kept beside the export; ``runtime_files.py`` judges them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from advisor.core import StageError, message_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

INPUTS = 32  # A change needs a new VERSION of every exporter, because comparisons are cached
SEED = 20_261

SMALL_DIFFERENCE = 0.03
"""Difference as a share of an output's range up to which other answers are near ties. Most exports
have 0 in int8 and 1e-6 in float32; LiteRT's HARD_SWISH in int8 rounds otherwise than ONNX
Runtime's, by 0.02 in MobileNetV3.
"""


def compare_export(
    model: str, run: Callable[[Sequence[Sequence[Array]]], Sequence[Sequence[Array]]]
) -> dict[str, float]:
    """Return how an export, which ``run`` runs on many inputs, compares with its file.

    Answers are the same if the largest value of every output has the same index. Differences are
    shares of an output's range: of the values of a float output, of the type of an integer one.
    LiteRT's own kernels, with XNNPACK and without, are compared where the export differs by more
    than :data:`SMALL_DIFFERENCE`. StageError if LiteRT cannot run the file.
    """
    inputs, outputs = _run_file(model)
    same, largest = compare_outputs(outputs, run(inputs))
    # The second run of LiteRT is skipped where the export is close enough anyway.
    kernels = 0.0
    if largest > SMALL_DIFFERENCE:
        kernels = compare_outputs(outputs, _run_file(model, xnnpack=False)[1])[1]
    return {
        "inputs": INPUTS,
        "same_answers": same,
        "largest_difference": largest,
        "kernels_difference": kernels,
    }


def compare_outputs(
    ours: Sequence[Sequence[Array]], theirs: Sequence[Sequence[Array]]
) -> tuple[int, float]:
    """Return on how many inputs file and export have the same answers,
    and their largest relative difference.
    """
    import numpy as np

    same = 0
    largest = 0.0
    for our_outputs, their_outputs in zip(ours, theirs, strict=True):
        # The largest value of both is at the same place;
        # of integers, one step less will do (a tie).
        agree = True
        for our_output, their_output in zip(our_outputs, their_outputs, strict=True):
            behind = float(our_output.astype(float).max()) - float(
                our_output.flat[their_output.argmax()]
            )
            agree = agree and behind <= _is_integer(our_output)
        same += agree
    for position in range(len(ours[0])):
        a = np.stack([outputs[position] for outputs in ours]).astype(np.float64)
        b = np.stack([outputs[position] for outputs in theirs]).astype(np.float64)
        # An 8-bit output has 256 steps, whatever part of them these inputs reach.
        whole = 255.0
        if not _is_integer(ours[0][position]):
            whole = max(float(np.ptp(a)), 1e-9)
        largest = max(largest, float(np.abs(a - b).max(initial=0.0)) / whole)
    return same, largest


def _is_integer(values: Array) -> bool:
    return values.dtype.kind in "iu"


def _run_file(model: str, xnnpack: bool = True) -> tuple[list[list[Array]], list[list[Array]]]:
    """Return the fixed inputs of a file,
    and its outputs for them by one of LiteRT's two sets of kernels.
    """
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kernels = OpResolverType.AUTO if xnnpack else OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    try:
        interpreter = Interpreter(
            model_path=model, num_threads=1, experimental_op_resolver_type=kernels
        )
        interpreter.allocate_tensors()
        inputs = [_draw_inputs(interpreter, index) for index in range(INPUTS)]
        return inputs, [_run_once(interpreter, values) for values in inputs]
    except (RuntimeError, ValueError) as error:
        raise StageError(f"LiteRT cannot run the file: {message_of(error)}") from error


def _draw_inputs(interpreter: Any, index: int) -> list[Array]:
    """Return fixed inputs: noise from coarse to fine,
    in the range of images or of the integer type.
    """
    import numpy as np

    inputs: list[Array] = []
    for detail in interpreter.get_input_details():
        generator = np.random.default_rng((SEED, index))
        shape = detail["shape"]
        kind = np.dtype(detail["dtype"])
        # White noise alone averages out in a network, whose answers would then hardly differ.
        coarse = 2 ** (index % 5)
        noise = generator.uniform(-1.0, 1.0, [-(-int(size) // coarse) for size in shape])
        for axis, size in enumerate(shape):
            noise = np.repeat(noise, coarse, axis).take(range(int(size)), axis)
        if kind.kind != "f":
            limits = np.iinfo(kind)
            noise = np.round((noise + 1.0) / 2.0 * (float(limits.max) - limits.min) + limits.min)
        inputs.append(noise.astype(kind))
    return inputs


def _run_once(interpreter: Any, inputs: Sequence[Array]) -> list[Array]:
    for detail, values in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], values)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]
