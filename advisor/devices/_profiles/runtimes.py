"""Describe the runtimes of this machine besides LiteRT as devices.

Such a device needs no connection, and its latencies are measured, never predicted.

To add a runtime, register an object with the members of :class:`LocalRuntime` as an entry point,
such as a :class:`PackagedRuntime`. The name of its device, such as ``host:onnxruntime``, is a part
of stored runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Protocol

from advisor.core import UsageError, install_extra, list_registered, load_integration
from advisor.devices._profiles.this_machine import host_profile
from advisor.devices._profiles.values import HOST, DeviceProfile, DeviceTarget

if TYPE_CHECKING:
    from advisor.devices._connections.protocol import Connection


LITERT = f"{HOST}:litert"  # Another name of ``host``: this machine's LiteRT
RUNTIMES = "advisor.runtimes"  # Entry points of :class:`LocalRuntime`


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
        """Return the versions of all that latencies on a target depend on;
        empty texts for what is not installed.
        """

    def missing(self) -> tuple[str, str]:
        """Return why the runtime cannot run here and how to get it; two empty texts if it can."""

    def connect(self, target: DeviceTarget) -> Connection:
        """Return what measures files with this runtime."""


@cache
def local_runtimes() -> Mapping[str, LocalRuntime]:
    """Return the runtimes by the names of their devices."""
    runtimes: list[LocalRuntime] = [
        load_integration(RUNTIMES, name) for name in list_registered(RUNTIMES)
    ]
    return {runtime.name: runtime for runtime in runtimes}


def runtime_of(selector: str) -> LocalRuntime | None:
    """Return the runtime of a device of this machine by ``device`` or ``device:target``;
    None for another device.
    """
    return local_runtimes().get(selector) or local_runtimes().get(selector.rpartition(":")[0])


def require_runtime(profile: DeviceProfile) -> LocalRuntime | None:
    """Return the runtime of a device of this machine, or None;
    refuse one that cannot run here (UsageError).
    """
    runtime = local_runtimes().get(profile.name)
    if runtime is not None:
        problem, hint = runtime.missing()
        if problem:
            raise UsageError(f"{runtime.name} {problem}", hint)
    return runtime


@dataclass(frozen=True)
class PackagedRuntime:
    """A runtime of this machine's CPU that packages of Python bring,
    and that runs files or their exports.
    """

    runtime: str  #: its name; the device is called ``host:`` and this
    title: str  #: its name for people
    packages: tuple[str, ...]  #: what makes the exports and runs them
    extra: str  #: the extra that installs these
    precisions: tuple[str, ...]  #: what it computes in
    forms: tuple[str, ...]  #: forms of files whose exports compute the same
    connection: Connection  #: measures files
    #: the package whose version it has; empty if this is called like the runtime
    package: str = ""

    @property
    def name(self) -> str:
        """The name of the device."""
        return f"{HOST}:{self.runtime}"

    def profile(self) -> DeviceProfile:
        """See :class:`LocalRuntime`."""
        host = host_profile()
        in_runtime = partial(
            replace,
            runtime=self.runtime,
            version=find_version(self.package or self.runtime),
            precisions=self.precisions,
            forms=self.forms,
            # Those of the host's targets are LiteRT's own.
            kernels="",
        )
        targets = tuple(map(in_runtime, host.targets))
        return replace(
            host, name=self.name, title=on_this_machine(self.title, host), targets=targets
        )

    def versions(self, target: DeviceTarget | None = None) -> Mapping[str, str]:
        """See :class:`LocalRuntime`; they are those of an exporter, too."""
        del target
        return {package: find_version(package) for package in self.packages}

    def missing(self) -> tuple[str, str]:
        """See :class:`LocalRuntime`."""
        lacking = [package for package, version in self.versions().items() if not version]
        if not lacking:
            return "", ""
        return f"needs {', '.join(lacking)}", install_extra(self.extra)

    def connect(self, target: DeviceTarget) -> Connection:
        """See :class:`LocalRuntime`."""
        del target
        return self.connection


def on_this_machine(runtime: str, host: DeviceProfile) -> str:
    """Return the title of a runtime with this machine's processor,
    which the title of its profile names in brackets.
    """
    return f"{runtime} on this machine ({host.title.partition('(')[2]}"


def find_version(package: str) -> str:
    """Return the version of a package, or of its build for CPUs alone;
    empty if it is not installed.
    """
    for name in (package, f"{package}-cpu"):
        with suppress(PackageNotFoundError):
            return version(name)
    return ""


def canonical(device: str) -> str:
    """Return the name of a device; ``host:litert`` is ``host``."""
    return HOST if device == LITERT else device


def title_of(selector: str) -> str:
    """Return the name of a runtime of this machine for people, with a named target;
    empty for another device.
    """
    if canonical(selector) == HOST:
        return "LiteRT"
    runtime = runtime_of(selector)
    if runtime is None:
        return ""
    if selector == runtime.name:
        return runtime.title
    target = selector.rpartition(":")[2]
    return f"{runtime.title} {target}"


def profiles_here() -> dict[str, DeviceProfile]:
    """Return the profiles of this machine and of its runtimes by name."""
    return {
        HOST: host_profile(),
        **{name: runtime.profile() for name, runtime in local_runtimes().items()},
    }
