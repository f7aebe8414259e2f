"""ONNX Runtime on this machine's CPU, and the ONNX exports of files, which other runtimes may run too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core.errors import UsageError, install_extra
from advisor.devices.connections.protocol import SMALL_DIFFERENCE, keep_export
from advisor.devices.profiles import runtimes
from advisor.devices.profiles.values import HOST, DeviceProfile, DeviceTarget
from advisor.isolation import CallLimits

if TYPE_CHECKING:
    from advisor.devices.connections.protocol import Connection

PACKAGES = ("onnx", "onnxruntime", "tf2onnx")
"""Packages that make ONNX exports and run them."""

FORMS = ("float32", "float16", "weight_int8", "int8", "pruned_50", "pruned_75", "clustered_16")
"""Forms with an ONNX export that computes the same. Weights stored as float16 are widened in it, as LiteRT does on
loading. ONNX has no operators that compute as LiteRT does with ``dynamic_int8``, ``weight_int4`` and ``int16x8``."""

TITLE = "ONNX"
VERSION = "3"
LIMITS = CallLimits(seconds=600, memory_bytes=8_000_000_000)


class OnnxRuntime:
    """ONNX Runtime on this machine's CPU, which runs the ONNX export of a file."""

    name = f"{HOST}:onnxruntime"
    title = "ONNX Runtime"

    def profile(self) -> DeviceProfile:
        """See :class:`advisor.devices.profiles.runtimes.LocalRuntime`."""
        from advisor.devices.profiles.runtimes import host_profile

        here, installed = host_profile(), runtimes.installed_version("onnxruntime")
        targets = tuple(
            replace(target, runtime="onnxruntime", version=installed, precisions=("float32", "int8"), forms=FORMS)
            for target in here.targets
        )
        return replace(here, name=self.name, title=runtimes.on_this_machine(self.title, here), targets=targets)

    def versions(self, target: DeviceTarget) -> Mapping[str, str]:
        """See :class:`advisor.devices.profiles.runtimes.LocalRuntime`."""
        return versions()

    def missing(self) -> tuple[str, str]:
        """See :class:`advisor.devices.profiles.runtimes.LocalRuntime`."""
        lacking = [package for package, found in versions().items() if not found]
        if not lacking:
            return "", ""
        return f"needs {', '.join(lacking)}", install_extra("onnx")

    def connect(self, target: DeviceTarget) -> Connection:
        """See :class:`advisor.devices.profiles.runtimes.LocalRuntime`."""
        from advisor.devices.connections.agent import HostConnection

        return HostConnection()


RUNTIME = OnnxRuntime()


def versions() -> Mapping[str, str]:
    """Return the versions of the packages; see :class:`advisor.devices.connections.protocol.Exporter`."""
    return {package: runtimes.installed_version(package) for package in PACKAGES}


def inputs(sha256: str) -> dict[str, str]:
    """Return what an export depends on; see :class:`advisor.devices.connections.protocol.Exporter`."""
    found = versions()
    for package in PACKAGES:
        if not found[package]:
            raise UsageError(f"ONNX Runtime needs {package}, which is not installed", install_extra("onnx"))
    return {"artefact": sha256, **found}


def write(model: Path, folder: Path) -> None:
    """Write the ONNX export of a file; see :class:`advisor.devices.connections.protocol.Exporter`."""
    from advisor.integrations.onnxruntime.export import write_onnx

    keep_export(write_onnx(str(model), str(folder / "model.onnx"), SMALL_DIFFERENCE), folder, TITLE)
