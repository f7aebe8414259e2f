"""The folder ``microcontroller`` of a bundle: C++ sources with the model, its arena and operators.

The entry point ``advisor.bundle_parts`` names this module; the export calls :func:`check` and
:func:`files` (``BundlePart``). Firmware of users includes the files
and names in them, those of the templates: they stay.
"""

import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from advisor.core import UsageError
from advisor.integrations import microcontroller
from advisor.reporting import ExportedModel, Shipping, render_template
from advisor.tflite import MICRO_ALIGNMENT, Tensor, micro_arena, read

CONTENT = "C++ for TensorFlow Lite Micro: the model as an array, its arena and its operators"
WITH_UNKNOWN_CLASS = False

FOLDER = "microcontroller"
MARGIN = 1.02
"""Factor on an arena that was computed:
the interpreter needed at most 0.1 % more than computed on 20 files.
"""

BYTES_A_LINE = 16
CHANNELS = 3
CUSTOM = "CUSTOM:"

_METHODS: Mapping[str, str] = MappingProxyType(
    {
        "CUMSUM": "CumSum",
        "PADV2": "PadV2",
        "BATCH_MATMUL": "BatchMatMul",
        "UNIDIRECTIONAL_SEQUENCE_LSTM": "UnidirectionalSequenceLSTM",
        f"{CUSTOM}TFLite_Detection_PostProcess": "DetectionPostprocess",
    }
)
"""Methods of ``MicroMutableOpResolver`` (micro_mutable_op_resolver.h)
that do not follow the operator's name.
"""


def check(_shipping: Shipping) -> None:
    """Do nothing, because every task has sources; see
    ``BundlePart``.
    """


def files(exported: ExportedModel) -> Mapping[str, bytes]:
    """Return the sources; see ``BundlePart``."""
    sources = write_firmware(
        exported.artefact, exported.model.measured.mean, exported.model.measured.std
    )
    return {name: text.encode() for name, text in sources.items()}


def write_firmware(
    content: bytes, mean: tuple[float, ...], std: tuple[float, ...]
) -> dict[str, str]:
    """Return the sources by their path in the bundle.

    ``content`` is the file as it was measured, with integer input and output.

    Raises:
        UsageError: TensorFlow Lite Micro does not run the file; the message names the operator.
        StageError: the interpreter crashed.
    """
    arena, origin = _measure_arena(content)
    model = read(content)
    names = set[str]()
    for graph in model.subgraphs:
        names.update(operator.name for operator in graph.operators)
    operators = sorted(names)
    customs = []
    for name in operators:
        # The team adds those that TensorFlow Lite Micro has no method for.
        if name.startswith(CUSTOM) and name not in _METHODS:
            customs.append(name)
    texts = {
        "model_settings.h": render_template(
            "model_settings.h.j2",
            __package__,
            size=len(content),
            arena=arena,
            origin=origin,
            operators=len(operators),
            methods=[name_method(name) for name in operators if name not in customs],
            # A name comes from the file, and could otherwise end the comment that it stands in.
            customs=[re.sub(r"[^\w.-]", "?", name.removeprefix(CUSTOM)) for name in customs],
            input=model.inputs[0],
            output=model.outputs[0],
            input_scale=_read_scale(model.inputs[0]),
            output_scale=_read_scale(model.outputs[0]),
            mean=_write_channels(mean),
            std=_write_channels(std),
        ),
        "model_data.cc": render_template(
            "model_data.cc.j2", __package__, lines=list(_write_lines(content))
        ),
    }
    return {f"{FOLDER}/{name}": text for name, text in texts.items()}


def name_method(operator: str) -> str:
    """Return the method of ``MicroMutableOpResolver`` that adds an operator:
    ``AddConv2D`` of ``CONV_2D``.
    """
    words = (word if word[0].isdigit() else word.capitalize() for word in operator.split("_"))
    return "Add" + (_METHODS.get(operator) or "".join(words))


def _measure_arena(content: bytes) -> tuple[int, str]:
    """Return the bytes of the arena and where the figure comes from."""
    if not microcontroller.available():
        size = int(MARGIN * micro_arena(read(content)).total)
        origin = f"computed with a margin of {MARGIN - 1:.0%}; ondevice-advisor[micro] measures it"
        return _round_up(size), origin
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tflite"
        path.write_bytes(content)
        micro_check = microcontroller.check(path)
    if micro_check.reason:
        raise UsageError(
            f"--microcontroller: {micro_check.reason}",
            "choose another candidate with --pick, such as an int8",
        )
    origin = (
        f"the smallest with which {micro_check.runtime} runs it, here {micro_check.arena_bytes}"
    )
    return _round_up(micro_check.arena_bytes), origin


def _round_up(size: int) -> int:
    return -(-size // MICRO_ALIGNMENT) * MICRO_ALIGNMENT


def _write_channels(values: tuple[float, ...]) -> str:
    """Return one number for each channel in C; a file may state one for all."""
    channels = values * CHANNELS if len(values) == 1 else values
    return ", ".join(f"{float(value)!r}f" for value in channels)


def _read_scale(tensor: Tensor) -> tuple[float, int] | None:
    """Return scale and zero point; None of a tensor without one."""
    quantization = tensor.quantization
    if quantization is None or not quantization.scales:
        return None
    return quantization.scales[0], next(iter(quantization.zero_points), 0)


def _write_lines(content: bytes) -> Iterator[str]:
    """Yield the lines of a C array of bytes."""
    for start in range(0, len(content), BYTES_A_LINE):
        yield ", ".join(f"0x{byte:02x}" for byte in content[start : start + BYTES_A_LINE])
