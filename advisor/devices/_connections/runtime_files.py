"""The file that a runtime runs for a ``.tflite`` file: the file itself, or its export.

Integrations make exports of other formats (:class:`Exporter`). An export is made once in a child
process, compared with its file (``exports.py``), and kept in the cache together with the
comparison or the refusal. The names in an export's folder, and the key of the cache with
``VERSION``, are read by earlier and later versions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from advisor.core import StageError, list_registered, load_integration
from advisor.devices._connections.exports import SMALL_DIFFERENCE
from advisor.devices._connections.protocol import Timing
from advisor.isolation import CallLimits, ChildPool, Scratch
from advisor.store import ArtifactCache, sha256_file

EXPORTERS = "advisor.exporters"
"""Entry points of :class:`Exporter`:
modules or objects, by the name of the runtime that runs the exports.
"""

SAME_ANSWERS = 0.9  # Least share of inputs with the same answer

LARGEST_DIFFERENCE = 0.1
"""Difference beyond which an export computes something else,
unless LiteRT's own kernels differ as much.
"""

OF_KERNELS = 1.5
"""Largest difference as a multiple of that between LiteRT's own kernels. Rounding adds up in a
deep int8 network: a retrained MobileNetV2 differs by 0.16 from its export, and by 0.19 between
LiteRT with and without XNNPACK.
"""

_REFUSED = "refused.txt"
_FACTS = "facts.json"


@dataclass(frozen=True)
class RuntimeFile:
    """A file for another runtime that computes the same as a ``.tflite`` file."""

    path: Path  # the file; the ``.tflite`` file itself for a runtime that runs it
    # Comparison of the two (:meth:`Exporter.write`); empty for the file itself.
    facts: Mapping[str, float]

    def add_comparison(self, timing: Timing) -> Timing:
        """Return the timing with the comparison of the two among its details."""
        if not self.facts:
            return timing
        return replace(timing, details={**timing.details, "onnx_export": dict(self.facts)})

    @classmethod
    def make_file(cls, runtime: str, model: Path) -> RuntimeFile:
        """Return the file that a runtime runs for a ``.tflite`` file.

        UsageError if a package that makes the export is not installed; StageError if the export
        cannot be made, does not run, or computes something else.
        """
        if not needs_export(runtime):
            return cls(model, {})
        exporter = exporter_for(runtime)

        def write_in_child(folder: Path) -> None:
            with Scratch() as scratch, ChildPool(scratch / "log.txt") as pool:
                function = f"{exporter.write.__module__}:{exporter.write.__name__}"
                pool.call(function, model.resolve(), folder, limits=exporter.LIMITS)

        inputs = exporter.inputs(sha256_file(model))
        # A refusal is cached like an export: it depends on the same inputs.
        folder = ArtifactCache().get(f"twin-{exporter.VERSION}", inputs, write_in_child)
        return RuntimeFile.read_export(folder)

    @classmethod
    def read_export(cls, folder: Path) -> RuntimeFile:
        """Return the export that :meth:`Exporter.write` left in a folder;
        StageError if it was refused.
        """
        refused = folder / _REFUSED
        if refused.is_file():
            # Of older versions.
            raise StageError(
                refused.read_text(encoding="utf-8").replace(" twin: ", " export: ", 1)
            )
        (path,) = folder.glob("model.*")
        return cls(path, json.loads((folder / _FACTS).read_text(encoding="utf-8")))


class Exporter(Protocol):
    """Makes the exports of files in one format."""

    TITLE: str  #: The format for people, such as ``ONNX``
    VERSION: str  #: Raised whenever the same file would get another export
    LIMITS: CallLimits  #: Limits of the child process that makes an export
    FORMS: tuple[str, ...]  #: Forms of files whose exports compute the same

    def versions(self) -> Mapping[str, str]:
        """Return the versions of all packages that an export depends on;
        empty texts for what is not installed.
        """

    def inputs(self, sha256: str) -> dict[str, str]:
        """Return all that the export of the file with this hash depends on;
        UsageError if a package is missing.
        """

    @property
    def write(self) -> Callable[[Path, Path], None]:
        """A function of a module, for child processes:
        it writes the export of a file as ``model.*`` into a folder.

        It ends with :func:`keep_export`, whose comparison has the number of ``inputs``, those with
        the ``same_answers``, and as shares of an output's range the ``largest_difference`` and the
        ``kernels_difference``, which is that between LiteRT's own kernels.
        """


def needs_export(runtime: str) -> bool:
    """Return whether a runtime does not run a ``.tflite`` file but its export."""
    return runtime in list_registered(EXPORTERS)


def exporter_for(runtime: str) -> Exporter:
    """Return what makes the exports that a runtime needs."""
    exporter: Exporter = load_integration(EXPORTERS, runtime)
    return exporter


def keep_export(comparison: Mapping[str, float] | str, folder: Path, title: str) -> None:
    """Write an export's comparison with its file into the export's folder, or why it is refused.

    A second try would end alike. ``title`` is the format of the export, which is the file
    ``model.*`` in the folder.
    """
    refusal = comparison if isinstance(comparison, str) else difference_of(comparison)
    if refusal:
        (folder / _REFUSED).write_text(f"no {title} export: {refusal}", encoding="utf-8")
    else:
        (folder / _FACTS).write_text(json.dumps(comparison), encoding="utf-8")


def difference_of(facts: Mapping[str, float]) -> str:
    """Return how an export differs from its file if it computes something else;
    empty if the two agree.
    """
    share = facts["same_answers"] / facts["inputs"]
    difference = facts["largest_difference"]
    most = max(LARGEST_DIFFERENCE, OF_KERNELS * facts["kernels_difference"])
    # Other answers are excused only where the outputs nearly agree: then they are ties.
    limit = most if share >= SAME_ANSWERS else SMALL_DIFFERENCE
    if difference <= limit:
        return ""
    return (
        f"it gives the file's answer on {facts['same_answers']:g} of {facts['inputs']:g} inputs,"
        f" and an output differs by up to {difference:.0%} of its range"
    )
