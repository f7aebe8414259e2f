"""Find the bandwidth of a system on chip's main memory, which all its cores share."""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from advisor.devices._profiles.socs import plain_name, read_rows
from advisor.store import shipped_folder

MEMORIES_FILE = "memories.csv"
_MBIT_PER_GB = 8000


def find_bandwidth(soc: str) -> float:
    """Return the bandwidth of a system on chip's memory in GB/s: width of its bus times transfers; 0 if unknown."""
    return _read_bandwidths().get(plain_name(soc), 0.0)


@cache
def _read_bandwidths() -> Mapping[str, float]:
    """Return the bandwidths of the shipped table by the names of the chips, with and without their makers'."""
    bandwidths = {}
    for row in read_rows(shipped_folder("device_profiles") / MEMORIES_FILE):
        bandwidth = int(row["bits"]) * int(row["mt_per_s"]) / _MBIT_PER_GB
        for name in (row["soc"], f"{row['maker']} {row['soc']}"):
            bandwidths[plain_name(name)] = bandwidth
    return MappingProxyType(bandwidths)
