"""Files for runtimes that do not run ``.tflite``: made once for each file, compared with it, and kept in the cache."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from advisor.core.errors import StageError, UsageError, install_extra
from advisor.devices.connections.protocol import Timing
from advisor.isolation import CallLimits, ChildPool, Scratch
from advisor.store import ArtifactCache
from advisor.store.files import sha256_file

ONNX_PACKAGES = ("onnx", "onnxruntime", "tf2onnx")
"""Packages that make ONNX exports and run them."""

SAME_ANSWERS = 0.9
"""Least share of inputs with the same answer."""

SMALL_DIFFERENCE = 0.03
"""Difference as a share of an output's range up to which other answers are near ties. Most exports have 0 in int8 and
1e-6 in float32; LiteRT's HARD_SWISH in int8 rounds otherwise than ONNX Runtime's, by 0.02 in MobileNetV3."""

LARGEST_DIFFERENCE = 0.1
"""Difference beyond which an ONNX export computes something else, unless LiteRT's own kernels differ as much."""

OF_KERNELS = 1.5
"""Largest difference as a multiple of that between LiteRT's own kernels. Rounding adds up in a deep int8 network: a
retrained MobileNetV2 differs by 0.16 from its export, and by 0.19 between LiteRT with and without XNNPACK."""

EXPORT_LIMITS = CallLimits(seconds=600, memory_bytes=8_000_000_000)
EXPORT_VERSION = "3"
"""Raised whenever the same file would get another export."""

_REFUSED = "refused.txt"


@dataclass(frozen=True)
class RuntimeFile:
    """A file for another runtime that computes the same as a ``.tflite`` file.

    Attributes:
        path: the file; the ``.tflite`` file itself for a runtime that runs it.
        facts: comparison of the two (:class:`advisor.tflite.onnx_export.ExportFacts`); empty for the file itself.
    """

    path: Path
    facts: Mapping[str, float]


def with_facts(timings: Sequence[Timing], exports: Mapping[Path, RuntimeFile]) -> tuple[Timing, ...]:
    """Return the timings with the comparison of each file with its export among the details."""
    return tuple(
        replace(timing, details={**timing.details, "onnx_export": dict(exports[timing.model].facts)})
        if exports[timing.model].facts
        else timing
        for timing in timings
    )


def needs_export(runtime: str) -> bool:
    """Return whether a runtime does not run a ``.tflite`` file but its export."""
    return runtime in _MAKERS


def file_for(runtime: str, model: Path) -> RuntimeFile:
    """Return the file that a runtime runs for a ``.tflite`` file.

    Raises:
        UsageError: a package that makes the export is not installed.
        StageError: the export cannot be made, does not run, or computes something else.
    """
    maker = _MAKERS.get(runtime)
    return maker(model) if maker else RuntimeFile(model, {})


def export_inputs(sha256: str) -> dict[str, str]:
    """Return everything that the ONNX export of the file with this hash depends on.

    Raises:
        UsageError: a package that makes the export is not installed.
    """
    return {"artefact": sha256, **{package: _installed(package) for package in ONNX_PACKAGES}}


def read_export(folder: Path) -> RuntimeFile:
    """Return the export that :func:`write_export` left in a folder.

    Raises:
        StageError: it was refused.
    """
    refused = folder / _REFUSED
    if refused.is_file():
        reason = refused.read_text(encoding="utf-8").removeprefix("no ONNX twin: ")  # written by older versions
        raise StageError(f"no ONNX export: {reason}")
    return RuntimeFile(folder / "model.onnx", json.loads((folder / "facts.json").read_text(encoding="utf-8")))


def _onnx_export(model: Path) -> RuntimeFile:
    def make(folder: Path) -> None:
        with Scratch() as scratch, ChildPool(scratch / "log.txt") as pool:
            pool.call(f"{__name__}:write_export", model.resolve(), folder, limits=EXPORT_LIMITS)

    return read_export(ArtifactCache().get(f"twin-{EXPORT_VERSION}", export_inputs(sha256_file(model)), make))


def write_export(model: Path, folder: Path) -> None:
    """Write the ONNX export of a file with its facts; for child processes.

    A refusal of the file is kept too, because a second try would end alike.
    """
    from advisor.tflite.onnx_export import write_onnx

    made = write_onnx(str(model), str(folder / "model.onnx"), SMALL_DIFFERENCE)
    refusal = made if isinstance(made, str) else difference_of(made)
    if refusal:
        (folder / _REFUSED).write_text(refusal, encoding="utf-8")
    else:
        (folder / "facts.json").write_text(json.dumps(made), encoding="utf-8")


def difference_of(facts: Mapping[str, float]) -> str:
    """Return how an ONNX export differs from its file if it computes something else; empty if the two agree."""
    share, difference = facts["same_answers"] / facts["inputs"], facts["largest_difference"]
    most = max(LARGEST_DIFFERENCE, OF_KERNELS * facts["kernels_difference"])
    if difference <= (most if share >= SAME_ANSWERS else SMALL_DIFFERENCE):
        return ""
    return (
        f"it gives the file's answer on {facts['same_answers']:g} of {facts['inputs']:g} inputs, and an output differs "
        f"by up to {difference:.0%} of its range"
    )


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError as error:
        raise UsageError(f"ONNX Runtime needs {package}, which is not installed", install_extra("onnx")) from error


_MAKERS: Mapping[str, Callable[[Path], RuntimeFile]] = {"onnxruntime": _onnx_export, "onnxruntime-web": _onnx_export}
