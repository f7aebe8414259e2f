"""Ways to reach a real device: each runs a measurement there and brings its figures back."""

from advisor.devices.connections.protocol import Connection, Job, Timing

__all__ = ["Connection", "Job", "Timing"]
