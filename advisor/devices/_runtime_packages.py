"""Install another runtime, or another release of it, in an environment of its own.

``advisor benchmark --runtime PACKAGE==VERSION`` measures with it. An environment lies in the cache
under ``runtimes/`` and is made once.
"""

import contextlib
import re
import sys
import venv
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path

from advisor.core import UsageError, nearest
from advisor.store import cache_root, fill_folder, install_package

# Packages that a runtime's wheels need but do not all declare.
COMPANIONS = {"ai-edge-litert": ("numpy",), "tflite-runtime": ("numpy<2",)}

# The last tflite-runtime is 2.14.0;
# its wheels are for CPython 3.8 to 3.11 (file list of the package index).
LAST_PYTHON = {"tflite-runtime": (3, 11)}

_REQUIREMENT = re.compile(
    r"^\s*([A-Za-z0-9._-]+)\s*==\s*([0-9]+(?:\.[0-9]+)*(?:(?:a|b|rc|\.post|\.dev)[0-9]+)?)\s*$"
)


@dataclass(frozen=True)
class Runtime:
    """The package and version of a runtime."""

    package: str
    version: str

    def __str__(self) -> str:
        return f"{self.package}=={self.version}"

    def find_python(self) -> Path | None:
        """Return the Python of an environment with this runtime, None for this environment;
        install it if needed.

        UsageError if there is no wheel for this Python, or pip cannot install the runtime.
        """
        # The installed version needs no environment of its own.
        with contextlib.suppress(metadata.PackageNotFoundError):
            if metadata.version(self.package) == self.version:
                return None
        refuse_newer_python(self, sys.version_info[:2])
        name = f"{self.package}-{self.version}-{sys.implementation.cache_tag}"
        return _python_of(
            fill_folder(cache_root() / "runtimes" / name, partial(_make_environment, self))
        )


def parse_runtime(text: str) -> Runtime:
    """Parse ``tflite-runtime==2.14.0``;
    raise UsageError for another package, or if the version is not exact.
    """
    matched = _REQUIREMENT.match(text)
    if matched is None:
        hint = "write for example --runtime tflite-runtime==2.14.0"
        raise UsageError(f"--runtime '{text}' is not a package with an exact version", hint)
    package = matched[1].lower().replace("_", "-").replace(".", "-")
    if package not in COMPANIONS:
        known = f"runtimes: {', '.join(COMPANIONS)}"
        raise UsageError(
            f"--runtime: unknown runtime '{package}'{nearest(package, COMPANIONS)}", known
        )
    return Runtime(package, matched[2])


def refuse_newer_python(runtime: Runtime, version: tuple[int, int]) -> None:
    """Raise UsageError for a runtime that has no wheel for this version of Python."""
    last = LAST_PYTHON.get(runtime.package)
    if last and version > last:
        shown = ".".join(map(str, version))
        newest = ".".join(map(str, last))
        raise UsageError(
            f"{runtime} has no wheel for Python {shown}; its last wheels are for Python {newest}",
            f"install advisor with Python {newest}, or use a version of ai-edge-litert",
        )


def _make_environment(runtime: Runtime, folder: Path) -> None:
    """Make the environment in an empty folder:
    the runtime's wheels, by this environment's pip and its settings.
    """
    venv.create(folder, symlinks=True, with_pip=False)
    hint = (
        "advisor uses your pip settings; list the versions with: pip index versions"
        f" {runtime.package}"
    )
    install_package(
        str(runtime), [str(runtime), *COMPANIONS[runtime.package]], hint, _python_of(folder)
    )


def _python_of(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
