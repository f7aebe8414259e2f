"""Find the peak arithmetic of a system on chip's GPU."""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from advisor.devices._profiles.socs import plain_name, read_rows
from advisor.store import shipped_folder

GPUS_FILE = "gpus.csv"


def find_gpu_peak(soc: str) -> float:
    """Return the 10^9 float32 operations a second of a system on chip's GPU; 0 if it is not listed."""
    return _read_peaks().get(plain_name(soc), 0.0)


@cache
def _read_peaks() -> Mapping[str, float]:
    """Return the shipped peaks by the names of the chips, with and without their makers'."""
    peaks = {}
    for row in read_rows(shipped_folder("device_profiles") / GPUS_FILE):
        for name in (row["soc"], f"{row['maker']} {row['soc']}"):
            peaks[plain_name(name)] = float(row["gflops"])
    return MappingProxyType(peaks)
