"""Device profiles: read, write, list and select them."""

from advisor.devices._profiles.loading import Profiles, load_profiles
from advisor.devices._profiles.reading import find_shipped_profiles, read_profile
from advisor.devices._profiles.values import (
    HOST,
    KERNELS,
    MEASURABLE_RUNTIMES,
    MEASURED_KERNELS,
    NAME_PATTERN,
    TFLITE_RUNTIMES,
    Cluster,
    DeviceLimits,
    DeviceProfile,
    DeviceTarget,
    runtime_remark,
)

__all__ = [
    "HOST",
    "KERNELS",
    "MEASURABLE_RUNTIMES",
    "MEASURED_KERNELS",
    "NAME_PATTERN",
    "TFLITE_RUNTIMES",
    "Cluster",
    "DeviceLimits",
    "DeviceProfile",
    "DeviceTarget",
    "Profiles",
    "find_shipped_profiles",
    "load_profiles",
    "read_profile",
    "runtime_remark",
]
