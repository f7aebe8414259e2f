"""Runtimes of this machine besides LiteRT, as devices: always connected, measured and never predicted.

To add a runtime, write one class with the members of :class:`LocalRuntime` and register an object of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Protocol

from advisor.core.errors import UsageError
from advisor.core.integrations import integration, registered
from advisor.devices.profiles.values import HOST, DeviceProfile, DeviceTarget

if TYPE_CHECKING:
    from advisor.devices.connections.protocol import Connection

LITERT = f"{HOST}:litert"
"""Another name of ``host``: this machine's LiteRT."""

RUNTIMES = "advisor.runtimes"
"""Entry points of :class:`LocalRuntime`."""


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


@cache
def local_runtimes() -> Mapping[str, LocalRuntime]:
    """Return the runtimes by the names of their devices."""
    found: list[LocalRuntime] = [integration(RUNTIMES, name) for name in registered(RUNTIMES)]
    return {runtime.name: runtime for runtime in found}


def on_this_machine(runtime: str, here: DeviceProfile) -> str:
    """Return the title of a runtime with this machine's processor, which the title of its profile names in brackets."""
    return f"{runtime} on this machine ({here.title.partition('(')[2]}"


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
    return local_runtimes().get(selector) or local_runtimes().get(selector.rpartition(":")[0])


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
    runtime = local_runtimes().get(profile.name)
    if runtime is not None:
        problem, hint = runtime.missing()
        if problem:
            raise UsageError(f"{runtime.name} {problem}", hint)
    return runtime
