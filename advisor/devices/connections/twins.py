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
"""Packages that make ONNX twins and run them."""

SAME_ANSWERS = 0.9
"""Least share of inputs with the same answer."""

SMALL_DIFFERENCE = 0.03
"""Difference as a share of an output's range up to which other answers are near ties. Most twins have 0 in int8 and
1e-6 in float32; LiteRT's HARD_SWISH in int8 rounds otherwise than ONNX Runtime's, by 0.02 in MobileNetV3."""

LARGEST_DIFFERENCE = 0.1
"""Difference beyond which a twin computes something else, unless LiteRT's own kernels differ as much."""

OF_KERNELS = 1.5
"""Largest difference as a multiple of that between LiteRT's own kernels. Rounding adds up in a deep int8 network: a
retrained MobileNetV2 differs by 0.16 from its twin, and by 0.19 between LiteRT with and without XNNPACK."""

TWIN_LIMITS = CallLimits(seconds=600, memory_bytes=8_000_000_000)
TWIN_VERSION = "3"
"""Raised whenever the same file would get another twin."""

_REFUSED = "refused.txt"


@dataclass(frozen=True)
class Twin:
    """A file for another runtime that computes the same as a ``.tflite`` file.

    Attributes:
        path: the file; the ``.tflite`` file itself for a runtime that runs it.
        facts: comparison of the two (:class:`advisor.tflite.onnx_twin.TwinFacts`); empty for the file itself.
    """

    path: Path
    facts: Mapping[str, float]


def with_facts(timings: Sequence[Timing], twins: Mapping[Path, Twin]) -> tuple[Timing, ...]:
    """Return the timings with the comparison of each file with its twin among the details."""
    return tuple(
        replace(timing, details={**timing.details, "twin": dict(twins[timing.model].facts)})
        if twins[timing.model].facts
        else timing
        for timing in timings
    )


def needs_twin(runtime: str) -> bool:
    """Return whether a runtime does not run a ``.tflite`` file but its twin."""
    return runtime in _MAKERS


def file_for(runtime: str, model: Path) -> Twin:
    """Return the file that a runtime runs for a ``.tflite`` file.

    Raises:
        UsageError: a package that makes the twin is not installed.
        StageError: the twin cannot be made, does not run, or computes something else.
    """
    maker = _MAKERS.get(runtime)
    return maker(model) if maker else Twin(model, {})


def twin_inputs(sha256: str) -> dict[str, str]:
    """Return everything that the ONNX twin of the file with this hash depends on.

    Raises:
        UsageError: a package that makes the twin is not installed.
    """
    return {"artefact": sha256, **{package: _installed(package) for package in ONNX_PACKAGES}}


def read_twin(folder: Path) -> Twin:
    """Return the twin that :func:`write_onnx_twin` left in a folder.

    Raises:
        StageError: it was refused.
    """
    refused = folder / _REFUSED
    if refused.is_file():
        raise StageError(refused.read_text(encoding="utf-8"))
    return Twin(folder / "model.onnx", json.loads((folder / "facts.json").read_text(encoding="utf-8")))


def _onnx_twin(model: Path) -> Twin:
    def make(folder: Path) -> None:
        with Scratch() as scratch, ChildPool(scratch / "log.txt") as pool:
            pool.call(f"{__name__}:write_onnx_twin", model.resolve(), folder, limits=TWIN_LIMITS)

    return read_twin(ArtifactCache().get(f"twin-{TWIN_VERSION}", twin_inputs(sha256_file(model)), make))


def write_onnx_twin(model: Path, folder: Path) -> None:
    """Write the ONNX twin of a file with its facts; for child processes.

    A refusal of the file is kept too, because a second try would end alike.
    """
    from advisor.tflite.onnx_twin import write_twin

    made = write_twin(str(model), str(folder / "model.onnx"), SMALL_DIFFERENCE)
    refusal = made if isinstance(made, str) else difference_of(made)
    if refusal:
        (folder / _REFUSED).write_text(f"no ONNX twin: {refusal}", encoding="utf-8")
    else:
        (folder / "facts.json").write_text(json.dumps(made), encoding="utf-8")


def difference_of(facts: Mapping[str, float]) -> str:
    """Return how a twin differs from its file if it computes something else; empty if the two agree."""
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


_MAKERS: Mapping[str, Callable[[Path], Twin]] = {"onnxruntime": _onnx_twin, "onnxruntime-web": _onnx_twin}
