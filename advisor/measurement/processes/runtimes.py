"""Install other runtimes and versions, each in its own environment in the cache folder."""

from __future__ import annotations

import contextlib
import re
import sys
import venv
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path

from advisor.core.errors import UsageError, nearest
from advisor.store.cache import cache_root, filled
from advisor.store.packages import install

# Packages that a runtime's wheels need but do not all declare.
COMPANIONS = {"ai-edge-litert": ("numpy",), "tflite-runtime": ("numpy<2",)}
# The last tflite-runtime is 2.14.0; its wheels are for CPython 3.8 to 3.11 (file list of the package index).
LAST_PYTHON = {"tflite-runtime": (3, 11)}

_REQUIREMENT = re.compile(r"^\s*([A-Za-z0-9._-]+)\s*==\s*([0-9]+(?:\.[0-9]+)*(?:(?:a|b|rc|\.post|\.dev)[0-9]+)?)\s*$")


@dataclass(frozen=True)
class Runtime:
    """The package and version of a runtime."""

    package: str
    version: str

    def __str__(self) -> str:
        return f"{self.package}=={self.version}"


def parse(text: str) -> Runtime:
    """Parse ``tflite-runtime==2.14.0``.

    Raises:
        UsageError: it is another package, or the version is not exact.
    """
    matched = _REQUIREMENT.match(text)
    if matched is None:
        raise UsageError(
            f"--runtime '{text}' is not a package with an exact version",
            "write for example --runtime tflite-runtime==2.14.0",
        )
    package = matched[1].lower().replace("_", "-").replace(".", "-")
    if package not in COMPANIONS:
        raise UsageError(
            f"--runtime: unknown runtime '{package}'{nearest(package, COMPANIONS)}",
            f"runtimes: {', '.join(COMPANIONS)}",
        )
    return Runtime(package, matched[2])


def interpreter(runtime: Runtime) -> Path | None:
    """Return the Python of an environment with this runtime, None for this environment; install it if needed.

    Raises:
        UsageError: there is no wheel for this Python, or pip cannot install the runtime.
    """
    with contextlib.suppress(metadata.PackageNotFoundError):
        if metadata.version(runtime.package) == runtime.version:
            return None
    refuse_newer_python(runtime, sys.version_info[:2])
    name = f"{runtime.package}-{runtime.version}-{sys.implementation.cache_tag}"
    return _python(filled(cache_root() / "runtimes" / name, partial(_make, runtime)))


def refuse_newer_python(runtime: Runtime, version: tuple[int, int]) -> None:
    """Refuse a runtime that has no wheel for this version of Python.

    Raises:
        UsageError: there is no wheel.
    """
    last = LAST_PYTHON.get(runtime.package)
    if last and version > last:
        shown, newest = (".".join(map(str, number)) for number in (version, last))
        raise UsageError(
            f"{runtime} has no wheel for Python {shown}; its last wheels are for Python {newest}",
            f"install advisor with Python {newest}, or use a version of ai-edge-litert",
        )


def _make(runtime: Runtime, folder: Path) -> None:
    """Make the environment in an empty folder."""
    venv.create(folder, symlinks=True, with_pip=False)
    _install(runtime, _python(folder))


def _install(runtime: Runtime, python: Path) -> None:
    """Install the runtime's wheels with this environment's pip and the user's pip settings."""
    hint = f"advisor uses your pip settings; list the versions with: pip index versions {runtime.package}"
    install(str(runtime), [str(runtime), *COMPANIONS[runtime.package]], hint, python)


def _python(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
