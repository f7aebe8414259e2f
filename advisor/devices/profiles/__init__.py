"""Device profiles: read, write, list and select them."""

from advisor.devices.profiles.loading import Profiles, load_profiles, read_profile
from advisor.devices.profiles.values import HOST, NAME_PATTERN, Cluster, DeviceProfile, DeviceTarget, Limits

__all__ = [
    "HOST",
    "NAME_PATTERN",
    "Cluster",
    "DeviceProfile",
    "DeviceTarget",
    "Limits",
    "Profiles",
    "load_profiles",
    "read_profile",
]
