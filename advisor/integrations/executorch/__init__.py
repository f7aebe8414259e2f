"""The runtime ``host:executorch``, and the ``.pte`` exports of float files.

The entry points ``advisor.runtimes`` and ``advisor.exporters`` name this module;
``devices/_connections/protocol.py`` declares what a maker of exports must offer. A child process
calls :func:`write` by module and name: ``_network.py`` computes the file in PyTorch, ExecuTorch
with XNNPACK compiles that, and the export is compared with its file. :data:`VERSION` is a part of
the key of an export in the cache. ``agent.py`` times exports in a process of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from advisor.core import StageError, UsageError, message_of
from advisor.devices import PackagedRuntime, compare_export, keep_export
from advisor.integrations.executorch._connection import ExecutorchConnection
from advisor.isolation import CallLimits

FORMS = ("float32", "pruned_50", "pruned_75", "clustered_16")
"""Forms whose exports compute the same."""

TITLE = "ExecuTorch"
VERSION = "1"
LIMITS = CallLimits(seconds=900, memory_bytes=8_000_000_000)

PACKAGES = ("executorch", "torch")

RUNTIME = PackagedRuntime(
    "executorch",
    TITLE,
    PACKAGES,
    "executorch",
    ("float32",),
    FORMS,
    ExecutorchConnection(Path(__file__).with_name("agent.py")),
)
versions = RUNTIME.versions


def inputs(sha256: str) -> dict[str, str]:
    """Return what an export depends on; see
    :class:`advisor.devices._connections.runtime_files.Exporter`.
    """
    problem, hint = RUNTIME.missing()
    if problem:
        raise UsageError(f"{TITLE} {problem}", hint)
    return {"artefact": sha256, **versions()}


def write(model: Path, folder: Path) -> None:
    """Write the export of a file, as
    :class:`advisor.devices._connections.runtime_files.Exporter` says.
    """
    keep_export(write_pte(model, folder / "model.pte"), folder, TITLE)


def write_pte(model: Path, export: Path) -> dict[str, float] | str:
    """Write the ``.pte`` of a float file and return how it compares on the same inputs,
    or why there is no export.
    """
    try:
        export.write_bytes(_convert(model))
        return compare_export(str(model), partial(_run, export))
    except StageError as error:
        return error.message


def _convert(model: Path) -> bytes:
    import torch
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    from advisor.integrations.executorch._network import FileNetwork
    from advisor.tflite import read

    file = read(model)
    try:
        program = torch.export.export(
            FileNetwork(file).eval(), (torch.zeros(file.inputs[0].shape),)
        )
        lowered = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
        return bytes(lowered.to_executorch().buffer)
    except StageError:
        raise
    # PyTorch and ExecuTorch raise whatever their passes meet.
    except Exception as error:
        raise StageError(f"ExecuTorch cannot convert the file: {message_of(error)}") from error


def _run(export: Path, inputs: Sequence[Sequence[Any]]) -> list[list[Any]]:
    import torch
    from executorch.runtime import Runtime

    try:
        method = Runtime.get().load_program(export).load_method("forward")
        assert method is not None, "every export has it"
        answers = []
        for arrays in inputs:
            outputs = method.execute(list(map(torch.from_numpy, arrays)))
            answers.append([output.numpy() for output in outputs])
        return answers
    except RuntimeError as error:
        raise StageError(f"ExecuTorch cannot run the export: {message_of(error)}") from error
