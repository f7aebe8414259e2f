"""Describe systems on chip by their cores, and the targets that every such processor has.

Phones that nobody measured, attached phones and profiles without targets are described this way.
The names of the targets, such as ``tflite-cpu-x4``, are written into profiles and runs.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

from advisor.core import UsageError
from advisor.devices._profiles.cores import core_named
from advisor.devices._profiles.values import MEASURED_KERNELS, Cluster, DeviceTarget
from advisor.store import shipped_folder

SOCS_FILE = "socs.csv"

RELEASE = "2.3.0"
"""Release of LiteRT of the targets that are made here, as of the shipped profiles:
what pip installs today.
"""

THREADS = (1, 2, 4)
"""CPU threads of the targets that are made here;
the last that the processor has cores for is the default.
"""

_X86 = ("SSE", "Tremont", "AVX", "Zen")
_ARMV9 = ("Cortex-A", "Cortex-X", "C1-")
_APPLE = ("Cyclone", "A12 ", "A14 ", "M2 ", "M3 ", "M4 ")
_ARM = (*_ARMV9, *_APPLE, "Neoverse", "Kryo", "Oryon", "Exynos", "Denver", "Carmel")
"""Beginnings of the names of Arm cores in ``cores.yaml``."""

_ARMV7 = ("Cortex-A7", "Cortex-A8", "Cortex-A9", "Cortex-A15", "Cortex-A17")
"""Names of Arm cores of 32 bits."""

_HEXAGON = re.compile(r"Hexagon v\d+")
_CLUSTER = re.compile(r"\s*(\d{1,2})\s*x\s*(.+?)(?:\s*@\s*(\d{2,5})(?:\s*MHz)?)?\s*")
_PLUS = re.compile(r"\+")
_IGNORED = re.compile(r"[^a-z0-9]+")
_MAKERS = re.compile(r"^(qualcomm|mediatek|samsung|hisilicon|google|unisoc|apple)(?=.)")


@dataclass(frozen=True)
class Soc:
    """A system on chip of ``device_profiles/socs.csv``.

    Attributes:
        maker: its maker, such as ``Qualcomm``.
        name: its name, with the maker's where people say it: ``Snapdragon 865``, ``Apple A15``.
        names: further names, and what a phone calls it.
        gpu: start of its GPU's renderer name, empty if it is not known.
        npu: name of its neural accelerator, empty if it is not known.
        cores: its clusters of cores, fastest first.
        source: what its figures were compared with.
    """

    maker: str
    name: str
    names: tuple[str, ...]
    gpu: str
    npu: str
    cores: tuple[Cluster, ...]
    source: str

    @classmethod
    @cache
    def read_all(cls) -> tuple[Soc, ...]:
        """Return the shipped systems on chip."""
        socs = []
        for row in read_rows(shipped_folder("device_profiles") / SOCS_FILE):
            socs.append(
                cls(
                    row["maker"],
                    row["soc"],
                    split_names(row["names"]),
                    row["gpu"],
                    row["npu"],
                    clusters_of(row["cores"]),
                    row["source"],
                )
            )
        return tuple(socs)


def title_with_maker(maker: str, name: str) -> str:
    """Return a name with its maker's before it, once."""
    return name if name.casefold().startswith(maker.casefold()) else f"{maker} {name}"


def plain_name(text: str) -> str:
    """Return a name for comparison: small letters and digits; ``+`` is ``plus``."""
    return _IGNORED.sub("", _PLUS.sub("plus", text.casefold()))


def read_rows(path: Path) -> tuple[dict[str, str], ...]:
    """Return the rows of a shipped table; lines that begin with ``#`` are comments."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return tuple(csv.DictReader(line for line in lines if not line.startswith("#")))


def split_names(text: str) -> tuple[str, ...]:
    """Return the parts of a cell that are joined by ``|``."""
    return tuple(filter(None, text.split("|")))


@cache
def _socs_by_name() -> Mapping[str, Soc]:
    socs = {}
    for soc in Soc.read_all():
        for name in (soc.name, *soc.names):
            socs[_plain_soc(name)] = soc
    return MappingProxyType(socs)


def _plain_soc(name: str) -> str:
    """Return a name for comparison without its maker's:
    people write ``Snapdragon 865`` with and without Qualcomm.
    """
    return _MAKERS.sub("", plain_name(name))


def find_soc(name: str) -> Soc | None:
    """Return the system on chip of a name, with or without its maker's; None if it is unknown."""
    return _socs_by_name().get(_plain_soc(name))


def clusters_of(text: str) -> tuple[Cluster, ...]:
    """Parse cores such as ``2 x Cortex-A76 @ 2200 + 6 x Cortex-A55`` (MHz), fastest first.

    UsageError for another text, or a core that is not known.
    """
    clusters = []
    for part in text.split("+"):
        match = _CLUSTER.fullmatch(part)
        if match is None:
            raise UsageError(
                f"cores '{text}' cannot be read",
                "write for example 2 x Cortex-A76 @ 2200 + 6 x Cortex-A55",
            )
        if int(match[1]) < 1:
            raise UsageError(
                f"cores '{text}' has a cluster without a core", "write for example 2 x Cortex-A76"
            )
        core_named(match[2])  # the error for an unknown one names the nearest
        mhz = int(match[3]) if match[3] else None
        clusters.append(Cluster(match[2], int(match[1]), mhz))
    return tuple(clusters)


def instruction_set(cores: Sequence[Cluster]) -> str:
    """Return the instruction set that all cores have at least;
    empty if it is neither 64-bit Arm nor x86.

    16-bit float came with Armv8.2,
    and the Cortex cores with an 8-bit matrix multiplication are of Armv9.
    """
    designs = [core_named(cluster.core) for cluster in cores]
    if all(core.name.startswith(_X86) for core in designs):
        return "x86-64"
    # A claim about a core of another family, or of 32 bits, would be a guess.
    for core in designs:
        if not core.name.startswith(_ARM) or core.name in _ARMV7:
            return ""
    if all(core.i8mm and core.name.startswith(_ARMV9) for core in designs):
        return "armv9-a"
    return "armv8.2-a" if all(core.fp16 for core in designs) else "armv8-a"


def cpu_targets(cores: Sequence[Cluster]) -> tuple[DeviceTarget, ...]:
    """Return the targets of LiteRT with XNNPACK on a processor:
    one for each of :data:`THREADS`, the default last.
    """
    count = sum(cluster.count for cluster in cores)
    targets = []
    for threads in THREADS:
        if threads <= max(count, 1):
            target = DeviceTarget(
                f"tflite-cpu-x{threads}",
                "tflite",
                "cpu",
                threads,
                RELEASE,
                ("float32", "int8"),
                kernels=MEASURED_KERNELS,
            )
            targets.append(target)
    return tuple(targets)


def npu_targets(npu: str) -> tuple[DeviceTarget, ...]:
    """Return the target of LiteRT on an accelerator that predictions can place:
    a Hexagon by its generation.

    No release is stated, because that of a phone's driver is not known:
    intervals are as wide as that of another one.
    """
    if not _HEXAGON.match(npu):
        return ()
    return (DeviceTarget("tflite-npu", "tflite", "npu", precisions=("float32", "int8")),)
