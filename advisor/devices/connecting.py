"""How a device at hand is reached, as its profile says it; no secret is part of that."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reached:
    """One way to a device.

    Attributes:
        ssh: host, ``user@host`` or a name of the user's ssh configuration; empty where it is reached by adb.
        adb: serial of a phone; empty where it is reached by ssh.
        python: the device's Python, with a TFLite runtime (ssh).
        benchmark_model: TensorFlow Lite's ``benchmark_model`` for the phone's processor (adb).
        cores: mask of the cores to pin to, hexadecimal (adb).
        config: another ssh configuration file than the user's.
    """

    ssh: str = ""
    adb: str = ""
    python: str = "python3"
    benchmark_model: str = ""
    cores: str = ""
    config: str = ""
