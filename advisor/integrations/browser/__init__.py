"""Headless Chromium on this machine as a device, and a page of a bundle that classifies images in a browser."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from advisor.core.errors import UsageError
from advisor.devices.connections.protocol import exporter_for, needs_export
from advisor.devices.profiles.measurements import PRECISIONS
from advisor.devices.profiles.runtimes import on_this_machine
from advisor.devices.profiles.values import WEB_RUNTIME, DeviceProfile, DeviceTarget

if TYPE_CHECKING:
    from advisor.devices.connections.protocol import Connection

ONNX_RUNTIME = "onnxruntime-web"


class Chromium:
    """A browser on this machine: headless Chromium, which runs LiteRT or ONNX Runtime in WebAssembly."""

    name = "chromium"
    title = "Chrome"

    def profile(self) -> DeviceProfile:
        """See :class:`advisor.devices.profiles.runtimes.LocalRuntime`."""
        from advisor.devices.profiles.runtimes import host_profile

        here = host_profile()
        counts = sorted({target.threads for target in here.targets})
        targets = [_in_browser("litert", WEB_RUNTIME, threads, PRECISIONS, ()) for threads in counts]
        forms = exporter_for(ONNX_RUNTIME).FORMS
        targets += [_in_browser("onnxruntime", ONNX_RUNTIME, threads, ("float32", "int8"), forms) for threads in counts]
        targets.append(replace(targets[0], name="litert-webgpu", accelerator="gpu", precisions=("float32", "float16")))
        title = on_this_machine(self.title, here)
        return replace(here, name=self.name, title=title, targets=tuple(targets), default_target="litert-wasm")

    def versions(self, target: DeviceTarget) -> Mapping[str, str]:
        """See :class:`advisor.devices.profiles.runtimes.LocalRuntime`."""
        from advisor.integrations.browser.connection import PACKAGES, chromium_version

        package = PACKAGES[target.runtime]
        export = exporter_for(target.runtime).versions() if needs_export(target.runtime) else {}
        return {"chromium": chromium_version(), package.package: package.version, **export}

    def missing(self) -> tuple[str, str]:
        """See :class:`advisor.devices.profiles.runtimes.LocalRuntime`."""
        from advisor.integrations.browser.connection import LITERT, chromium_program, fetched

        try:
            chromium_program()
            fetched(LITERT)
        except UsageError as error:
            return f"cannot run here: {error.message}", error.hint
        return "", ""

    def connect(self, target: DeviceTarget) -> Connection:
        """See :class:`advisor.devices.profiles.runtimes.LocalRuntime`."""
        from advisor.integrations.browser.connection import BrowserConnection

        return BrowserConnection(target.runtime, target.accelerator)


def _in_browser(
    stem: str, runtime: str, threads: int, precisions: tuple[str, ...], forms: tuple[str, ...]
) -> DeviceTarget:
    from advisor.integrations.browser.connection import PACKAGES

    name = f"{stem}-wasm{f'-x{threads}' if threads > 1 else ''}"
    return DeviceTarget(name, runtime, "cpu", threads, PACKAGES[runtime].version, precisions, forms=forms)


RUNTIME = Chromium()
