"""Describe devices, predict latency and memory on them, and connect to real ones."""

from advisor.devices.public import add, calibrate, list_devices, remove, show, to_frame

__all__ = ["add", "calibrate", "list_devices", "remove", "show", "to_frame"]
