"""Connect to real devices: each connection runs a measurement there and returns its figures."""

from advisor.devices.connections.protocol import Connection, Job, Timing

__all__ = ["Connection", "Job", "Timing"]
