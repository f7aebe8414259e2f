"""Runtimes of this machine besides LiteRT, as devices: always connected, measured and never predicted.

To add a runtime, write one class with the members of :class:`LocalRuntime` and add it to :data:`RUNTIMES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Protocol

from advisor.core.errors import UsageError, install_extra
from advisor.devices.profiles.measurements import PRECISIONS
from advisor.devices.profiles.values import HOST, WEB_RUNTIME, DeviceProfile, DeviceTarget

if TYPE_CHECKING:
    from advisor.devices.connections.protocol import Connection

LITERT = f"{HOST}:litert"
"""Another name of ``host``: this machine's LiteRT."""


class LocalRuntime(Protocol):
    """A runtime of this machine that a search can name as a device."""

    @property
    def name(self) -> str:
        """The name of the device, such as ``host:onnxruntime``."""

    @property
    def title(self) -> str:
        """The name of the runtime for people, such as ``ONNX Runtime``."""

    def profile(self) -> DeviceProfile:
        """Return the device with its targets; a runtime that is not installed has no version."""

    def versions(self, target: DeviceTarget) -> Mapping[str, str]:
        """Return the versions of all that latencies on a target depend on; empty texts for what is not installed."""

    def missing(self) -> tuple[str, str]:
        """Return why the runtime cannot run here and how to get it; two empty texts if it can."""

    def connect(self, target: DeviceTarget) -> Connection:
        """Return what measures files with this runtime."""


class OnnxRuntime:
    """ONNX Runtime on this machine's CPU, which runs the ONNX twin of a file."""

    name = f"{HOST}:onnxruntime"
    title = "ONNX Runtime"

    def profile(self) -> DeviceProfile:
        """See :class:`LocalRuntime`."""
        from advisor.devices.profiles.host import host_profile

        here, installed = host_profile(), installed_version("onnxruntime")
        targets = tuple(
            replace(target, runtime="onnxruntime", version=installed, precisions=("float32", "int8"), forms=ONNX_FORMS)
            for target in here.targets
        )
        return replace(here, name=self.name, title=_on_this_machine(self.title, here), targets=targets)

    def versions(self, target: DeviceTarget) -> Mapping[str, str]:
        """See :class:`LocalRuntime`."""
        return _onnx_versions()

    def missing(self) -> tuple[str, str]:
        """See :class:`LocalRuntime`."""
        lacking = [package for package, found in _onnx_versions().items() if not found]
        if not lacking:
            return "", ""
        return f"needs {', '.join(lacking)}", install_extra("onnx")

    def connect(self, target: DeviceTarget) -> Connection:
        """See :class:`LocalRuntime`."""
        from advisor.devices.connections.host import HostConnection

        return HostConnection()


class Chromium:
    """A browser on this machine: headless Chromium, which runs LiteRT or ONNX Runtime in WebAssembly."""

    name = "chromium"
    title = "Chrome"

    def profile(self) -> DeviceProfile:
        """See :class:`LocalRuntime`."""
        from advisor.devices.profiles.host import host_profile

        here = host_profile()
        counts = sorted({target.threads for target in here.targets})
        targets = [_in_browser("litert", WEB_RUNTIME, threads, PRECISIONS, ()) for threads in counts]
        targets += [
            _in_browser("onnxruntime", "onnxruntime-web", threads, ("float32", "int8"), ONNX_FORMS)
            for threads in counts
        ]
        targets.append(replace(targets[0], name="litert-webgpu", accelerator="gpu", precisions=("float32", "float16")))
        title = _on_this_machine(self.title, here)
        return replace(here, name=self.name, title=title, targets=tuple(targets), default_target="litert-wasm")

    def versions(self, target: DeviceTarget) -> Mapping[str, str]:
        """See :class:`LocalRuntime`."""
        from advisor.devices.browser.connection import chromium_version
        from advisor.devices.browser.packages import PACKAGES

        package = PACKAGES[target.runtime]
        twin = _onnx_versions() if target.runtime == "onnxruntime-web" else {}
        return {"chromium": chromium_version(), package.package: package.version, **twin}

    def missing(self) -> tuple[str, str]:
        """See :class:`LocalRuntime`."""
        from advisor.devices.browser.connection import chromium_program
        from advisor.devices.browser.packages import LITERT as LITERT_PACKAGE
        from advisor.devices.browser.packages import fetched

        try:
            chromium_program()
            fetched(LITERT_PACKAGE)
        except UsageError as error:
            return f"cannot run here: {error.message}", error.hint
        return "", ""

    def connect(self, target: DeviceTarget) -> Connection:
        """See :class:`LocalRuntime`."""
        from advisor.devices.browser.connection import BrowserConnection

        return BrowserConnection(target.runtime, target.accelerator)


ONNX_FORMS = ("float32", "float16", "weight_int8", "int8", "pruned_50", "pruned_75", "clustered_16")
"""Forms with an ONNX twin that computes the same. Weights stored as float16 are widened in the twin, as LiteRT does on
loading. ONNX has no operators that compute as LiteRT does with ``dynamic_int8``, ``weight_int4`` and ``int16x8``."""

_LISTED: tuple[LocalRuntime, ...] = (OnnxRuntime(), Chromium())
RUNTIMES: Mapping[str, LocalRuntime] = {runtime.name: runtime for runtime in _LISTED}
"""The runtimes by the names of their devices."""


def _on_this_machine(runtime: str, here: DeviceProfile) -> str:
    """Return the title of a runtime with this machine's processor, which the title of its profile names in brackets."""
    return f"{runtime} on this machine ({here.title.partition('(')[2]}"


def _in_browser(
    stem: str, runtime: str, threads: int, precisions: tuple[str, ...], forms: tuple[str, ...]
) -> DeviceTarget:
    from advisor.devices.browser.packages import PACKAGES

    name = f"{stem}-wasm{f'-x{threads}' if threads > 1 else ''}"
    return DeviceTarget(name, runtime, "cpu", threads, PACKAGES[runtime].version, precisions, forms=forms)


def _onnx_versions() -> dict[str, str]:
    from advisor.devices.connections.twins import ONNX_PACKAGES

    return {package: installed_version(package) for package in ONNX_PACKAGES}


def installed_version(package: str) -> str:
    """Return the version of a package; empty if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def canonical(device: str) -> str:
    """Return the name of a device; ``host:litert`` is ``host``."""
    return HOST if device == LITERT else device


def runtime_of(selector: str) -> LocalRuntime | None:
    """Return the runtime of a device of this machine by ``device`` or ``device:target``; None for another device."""
    return RUNTIMES.get(selector) or RUNTIMES.get(selector.rpartition(":")[0])


def title_of(selector: str) -> str:
    """Return the name of a runtime of this machine for people, with a named target; empty for another device."""
    if canonical(selector) == HOST:
        return "LiteRT"
    runtime = runtime_of(selector)
    if runtime is None:
        return ""
    return runtime.title if selector == runtime.name else f"{runtime.title} {selector.rpartition(':')[2]}"


def require_runtime(profile: DeviceProfile) -> LocalRuntime | None:
    """Return the runtime of a device of this machine; None for another device.

    Raises:
        UsageError: the runtime cannot run here; the hint says how to install it.
    """
    runtime = RUNTIMES.get(profile.name)
    if runtime is not None:
        problem, hint = runtime.missing()
        if problem:
            raise UsageError(f"{runtime.name} {problem}", hint)
    return runtime
