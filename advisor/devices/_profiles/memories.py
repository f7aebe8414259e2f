"""Find the bandwidth of a system on chip's main memory, which all its cores share.

Predictions limit the arithmetic of a CPU by what its memory feeds (``_latency/speeds.py``).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from statistics import median
from types import MappingProxyType

from advisor.devices._profiles.socs import plain_name, read_rows
from advisor.store import shipped_folder

MEMORIES_FILE = "memories.csv"
_MBIT_PER_GB = 8000
_MB_PER_GB = 1000


@dataclass(frozen=True)
class Memory:
    """The main memory of a system on chip.

    Attributes:
        bandwidth: of its bus in GB/s: width times transfers; 0 if unknown.
        share: of the bandwidth that one core reaches when it copies; that of a typical chip where
            nobody measured it.
    """

    bandwidth: float
    share: float


def find_memory(soc: str) -> Memory:
    """Return the memory of a system on chip;
    a chip that is not listed has a typical one of unknown bandwidth.
    """
    memories = _read_memories()
    return memories.get(plain_name(soc), memories[""])


@cache
def _read_memories() -> Mapping[str, Memory]:
    """Return the shipped memories by the names of the chips, with and without their makers';
    a typical one under "".
    """
    bandwidths = {}
    shares = {}
    rows = read_rows(shipped_folder("device_profiles") / MEMORIES_FILE)
    for row in rows:
        bandwidth = int(row["bits"]) * int(row["mt_per_s"]) / _MBIT_PER_GB
        bandwidths[row["soc"]] = bandwidth
        if row["copy_mb_per_s"]:
            # A copy moves each byte twice: it is read and written.
            copied = 2 * int(row["copy_mb_per_s"]) / _MB_PER_GB
            shares[row["soc"]] = copied / bandwidth
    typical = median(shares.values())
    memories = {"": Memory(0.0, typical)}
    for row in rows:
        memory = Memory(bandwidths[row["soc"]], shares.get(row["soc"], typical))
        for name in (row["soc"], f"{row['maker']} {row['soc']}"):
            memories[plain_name(name)] = memory
    return MappingProxyType(memories)
