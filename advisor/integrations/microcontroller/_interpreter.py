"""Run a file in the interpreter of TensorFlow Lite Micro (TFLM), and find its smallest arena.

A child process of ``microcontroller/__init__.py`` calls :func:`collect` by module and name,
because TFLM ends the process on some damaged files. It returns JSON values, which
:func:`advisor.integrations.microcontroller.check` reads.
"""

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGEST_ARENA = 1 << 28
"""Bytes of the first attempt: more than any microcontroller has."""

FLOAT_TOLERANCE = 1e-5
"""Share of the largest value by which a float output may differ: float32 sums depend on their
order.
"""

_ROUNDING = 64
"""Bytes by which the recorded arena can be larger than the smallest."""

_MISSING = re.compile(r"Failed to get registration from op code (\w+)")
_REFUSED = re.compile(r"Node (\w+) \(number (\d+)\) failed to (?:prepare|invoke)")
_RECORDED = re.compile(r"Arena allocation (head|tail) (\d+) bytes")
_SOURCE = re.compile(r"^\S+\.(?:cc|h):?\d*:? ")

RunInputs = Sequence[Sequence[NDArray[Any]]]
"""The inputs of several runs."""


class NotRun(Exception):
    """TFLM does not run the file; the text is what it printed."""


def collect(path: str, inputs: int) -> dict[str, Any]:
    """Return the arena and the agreement of a file with LiteRT.

    Of a file that TFLM does not run, return the operators that it lacks, or why it refuses it.
    """
    from ai_edge_litert import schema_py_generated as schema

    data = Path(path).read_bytes()
    document: dict[str, Any] = {
        "version": metadata.version("tflite_micro"),
        "missing": [],
        "refusal": "",
    }
    stored = schema.Model.GetRootAs(data)
    # ai-edge-quantizer writes large constants behind the flatbuffer.
    outside = sum(stored.Buffers(place).Offset() > 1 for place in range(stored.BuffersLength()))
    # TFLM reports no error for them, and would answer with wrong values.
    if outside:
        reason = (
            f"it would read {outside} of the file's constants as zeros, which are stored behind"
            " the flatbuffer"
        )
        return {**document, "refusal": reason}
    try:
        arena, head = _find_arena(data)
    except NotRun as error:
        document["missing"] = _list_missing(data, str(error))
        document["refusal"] = "" if document["missing"] else _read_reason(str(error))
        return document
    return {
        **document,
        "arena_bytes": arena,
        "activation_bytes": head,
        **_compare_outputs(data, arena, inputs),
    }


def _find_arena(data: bytes) -> tuple[int, int]:
    """Return the smallest arena with which the file is set up,
    and the bytes of it that the planner gives activations.

    TFLM records what it keeps, rounded up by at most the alignment.
    Setting up can need more for a moment.
    """
    with _capture_prints() as text:
        interpreter = _new_interpreter(data, LARGEST_ARENA, text)
        _run(interpreter, _draw_inputs(data, interpreter, 1), text)
        interpreter.print_allocations()
        recorded = {part: int(size) for part, size in _RECORDED.findall(text())}
        # Its arena is far larger than what is needed now.
        del interpreter
        enough = sum(recorded.values())
        too_small = enough - _ROUNDING
        while not _fits(data, enough):
            too_small = enough
            enough = enough + enough // 8 + _ROUNDING
        # Halved until they are neighbours: the smallest arena that is enough.
        while enough - too_small > 1:
            middle = (enough + too_small) // 2
            if _fits(data, middle):
                enough = middle
            else:
                too_small = middle
    return enough, recorded["head"]


def _compare_outputs(data: bytes, arena: int, inputs: int) -> dict[str, Any]:
    """Run random inputs within the smallest arena,
    and return how the outputs differ from LiteRT's kernels.
    """
    with _capture_prints() as text:
        interpreter = _new_interpreter(data, arena, text)
        values = _draw_inputs(data, interpreter, inputs)
        _, tensors = _read_details(data)
        outputs = _run(interpreter, values, text, len(tensors))
    # Integers are computed exactly, so they may not differ at all.
    floats = any(tensor.dtype.startswith("float") for tensor in tensors)
    tolerance = FLOAT_TOLERANCE if floats else 0.0
    kernels = {}
    for name in ("reference", "default"):
        expected = _run_in_litert(data, values, name)
        kernels[name] = _measure_differences(outputs, expected, tolerance)
    return {"inputs": inputs, "values": int(outputs.size), "kernels": kernels}


def _measure_differences(
    outputs: NDArray[Any], expected: NDArray[Any], tolerance: float
) -> dict[str, float]:
    """Return how many values differ by more than the tolerance, and by how much at most."""
    differences = np.abs(outputs - expected)
    differences[differences <= tolerance * np.abs(expected).max(initial=0)] = 0
    return {
        "differing": int(np.count_nonzero(differences)),
        "largest": float(differences.max(initial=0)),
    }


def _read_details(data: bytes) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    from advisor.tflite import read

    model = read(data)
    return model.inputs, model.outputs


def _run_in_litert(data: bytes, inputs: RunInputs, kernels: str) -> NDArray[Any]:
    """Return all outputs of all inputs one after the other, by the named kernels of LiteRT."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    # TFLM computes as the reference kernels do. The default ones of LiteRT differ more often.
    resolver = OpResolverType.BUILTIN_REF if kernels == "reference" else OpResolverType.AUTO
    interpreter = Interpreter(
        model_content=data, num_threads=1, experimental_op_resolver_type=resolver
    )
    interpreter.allocate_tensors()
    outputs = []
    for values in inputs:
        for details, value in zip(interpreter.get_input_details(), values, strict=True):
            interpreter.set_tensor(details["index"], value)
        interpreter.invoke()
        for details in interpreter.get_output_details():
            outputs.append(interpreter.get_tensor(details["index"]))
    return _flatten(outputs)


def _flatten(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate([np.asarray(array, np.float64).ravel() for array in arrays])


def _new_interpreter(data: bytes, arena: int, text: Any) -> Any:
    """Return an interpreter. Raises NotRun: TFLM refuses the file, or the arena is too small."""
    from tflite_micro.python.tflite_micro import runtime

    try:
        return runtime.Interpreter.from_bytes(data, arena_size=arena)
    except RuntimeError as error:
        raise NotRun(text() or str(error)) from error


def _fits(data: bytes, arena: int) -> bool:
    """Return whether an arena is large enough.

    It is tried in a fork, because TFLM crashes in some arenas that are too small.
    """
    child = os.fork()
    if child == 0:
        status = 1
        with suppress(NotRun):
            _new_interpreter(data, arena, str)
            status = 0
        # Without the exit handlers, which are those of the parent.
        os._exit(status)
    return os.waitpid(child, 0)[1] == 0


def _run(interpreter: Any, inputs: RunInputs, text: Any, outputs: int = 1) -> NDArray[Any]:
    """Return all outputs of all inputs one after the other. Raises NotRun: a kernel fails."""
    arrays = []
    for values in inputs:
        try:
            for place, value in enumerate(values):
                interpreter.set_input(value, place)
            interpreter.invoke()
        except (RuntimeError, ValueError) as error:
            raise NotRun(text() or str(error)) from error
        arrays += [np.array(interpreter.get_output(place)) for place in range(outputs)]
    return _flatten(arrays)


def _draw_inputs(data: bytes, interpreter: Any, number: int) -> RunInputs:
    """Return random inputs of some runs."""
    # With a fixed seed, the same file gives the same figures.
    random = np.random.default_rng(0)
    tensors, _ = _read_details(data)
    details = list(map(interpreter.get_input_details, range(len(tensors))))
    inputs = []
    for _ in range(number):
        inputs.append([_draw_values(input_details, random) for input_details in details])
    return inputs


def _draw_values(details: dict[str, Any], random: np.random.Generator) -> NDArray[Any]:
    shape = tuple(details["shape"])
    dtype = np.dtype(details["dtype"])
    if dtype.kind == "f":
        return random.uniform(-1, 1, shape).astype(dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(dtype)
    limits = np.iinfo(dtype)
    return random.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def _list_missing(data: bytes, printed: str) -> list[str]:
    """Return the operators that TFLM does not have.

    It names the first one only, so that is left out of the file, and the file is tried again.
    """
    from advisor.tflite import read, unpack

    missing = list[str]()
    match = _MISSING.search(printed)
    while match is not None:
        tables = unpack(data)
        graphs = read(data).subgraphs
        names = list[str]()
        for graph in graphs:
            names += [operator.name for operator in graph.operators]
        # TFLM prints CUSTOM, and which custom operator it is stands in the file alone.
        missing_name = next(name for name in names if name.partition(":")[0] == match[1])
        missing.append(missing_name)
        for table, graph in zip(tables.subgraphs, graphs, strict=True):
            pairs = zip(table.operators, graph.operators, strict=True)
            table.operators = [entry for entry, operator in pairs if operator.name != missing_name]
        data = tables.pack()
        printed = ""
        try:
            with _capture_prints() as text:
                _new_interpreter(data, LARGEST_ARENA, text)
        except NotRun as error:
            printed = str(error)
        match = _MISSING.search(printed)
    return missing


def _read_reason(printed: str) -> str:
    """Return what TFLM says of the operator that it refuses, in one line."""
    lines = []
    for printed_line in printed.splitlines():
        line = printed_line.strip()
        if line:
            lines.append(_SOURCE.sub("", line))
    refused = _REFUSED.search(printed)
    if refused is None:
        return lines[0] if lines else "it gives no reason"
    reasons = [line for line in lines if not _REFUSED.search(line)]
    reason = reasons[0] if reasons else "it gives no reason"
    return f"{refused[1]} (operator {refused[2]}): {reason}"


@contextmanager
def _capture_prints() -> Iterator[Any]:
    """Yield a function that returns, and forgets, what native code has printed
    to standard error.
    """
    # The file descriptor is replaced, because native code does not write through sys.stderr.
    standard_error = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)

        def text() -> str:
            file.seek(0)
            printed = file.read().decode("utf-8", "replace")
            file.seek(0)
            file.truncate()
            return printed

        try:
            yield text
        finally:
            os.dup2(standard_error, 2)
            os.close(standard_error)
