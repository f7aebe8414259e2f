"""Find the peak arithmetic of a system on chip's GPU, and describe the target that it places.

Predictions for GPUs that nobody measured rest on these peaks (``gpus.csv``).
"""

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from advisor.devices._profiles.socs import plain_name, read_rows
from advisor.devices._profiles.values import DeviceTarget
from advisor.store import shipped_folder

GPUS_FILE = "gpus.csv"

_VARIANT = re.compile(r"(?<=\d)[S+]$")


def find_gpu_peak(soc: str) -> float:
    """Return the 10^9 float32 operations a second of a system on chip's GPU;
    0 if it is not listed.
    """
    return _read_peaks().get(plain_name(soc), 0.0)


def without_variant(soc: str) -> str:
    """Return the name of the silicon without variants:
    RK3588S is RK3588, and Snapdragon 855+ is Snapdragon 855.
    """
    return _VARIANT.sub("", soc.split(" for ")[0])


def gpu_targets(soc: str) -> tuple[DeviceTarget, ...]:
    """Return the target of LiteRT on the GPU of a system on chip;
    none if its peak arithmetic is not listed.

    No release is stated: a phone takes the delegate from the app.
    """
    if not find_gpu_peak(without_variant(soc)):
        return ()
    return (DeviceTarget("tflite-gpu", "tflite", "gpu"),)


@cache
def _read_peaks() -> Mapping[str, float]:
    """Return the shipped peaks by the names of the chips, with and without their makers'."""
    peaks = {}
    for row in read_rows(shipped_folder("device_profiles") / GPUS_FILE):
        for name in (row["soc"], f"{row['maker']} {row['soc']}"):
            peaks[plain_name(name)] = float(row["gflops"])
    return MappingProxyType(peaks)
