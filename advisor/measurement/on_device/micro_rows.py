"""Rows of ``advisor benchmark --device`` for microcontrollers: files that run in TensorFlow Lite Micro, or why not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from advisor.core.errors import StageError, install_extra
from advisor.core.units import show_bytes
from advisor.devices.profiles import DeviceTarget
from advisor.measurement.micro.check import EXTRA, NAME, available, check
from advisor.measurement.on_device.findings import DeviceRow
from advisor.measurement.processes.model_file import ModelFile


def with_arena(row: DeviceRow, file: ModelFile) -> DeviceRow:
    """Return the row with the tensor arena: found with the interpreter where it is installed, else computed."""
    from advisor.tflite.micro_arena import micro_arena

    row = replace(row, arena_bytes=micro_arena(file.graph).total)
    if row.failure or not available():
        return row
    try:
        found = check(file.path)
    except StageError as error:
        return replace(row, latency=None, failure=error.message)
    if found.reason:
        return replace(row, latency=None, failure=f"{file.path.name}: {found.reason}", micro=found)
    return replace(row, arena_bytes=found.arena_bytes, micro=found)


def notes(rows: Sequence[DeviceRow], target: DeviceTarget) -> tuple[str, ...]:
    """Return where the arenas come from, and whether outputs equal LiteRT's."""
    if not available():
        return (f"{target.name}: {NAME} is not installed, arenas are computed; {install_extra(EXTRA)}",)
    return tuple(
        f"{Path(row.model).name}: {row.micro.runtime} runs it in an arena of {row.micro.arena_bytes:,} bytes "
        f"({show_bytes(row.micro.activation_bytes)} for activations); {row.micro.agreement}"
        for row in rows
        if row.micro and not row.failure
    )
