"""Install packages that do not fit those of this environment into the cache.

Tools and formats of other versions run in child processes with such packages. The user's pip
installs them, with its index, proxy and certificates. Only wheels are installed, so that no set-up
code of a package runs.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from advisor.core import UsageError
from advisor.isolation import TimedOut, run_program
from advisor.store._cache import cache_root, fill_folder
from advisor.store._files import sha256_json

TIMEOUT_S = 600.0
"""Seconds that pip may take."""

MOST_REASON = 300
"""Most letters of an error of pip that are shown."""


@dataclass(frozen=True)
class Packages:
    """Packages in a folder of the cache, beside those of this environment."""

    name: str  # of the folder, and in errors: the package that is wanted
    # lines of a requirements file: every package with its exact version, and best with its hash
    requirements: tuple[str, ...]
    options: tuple[str, ...] = ()  # more options of ``pip install``, such as ``--no-deps``

    @property
    def are_installed(self) -> bool:
        """The packages are in the cache already."""
        return self._folder.is_dir()

    def import_path(self) -> str:
        """Return the ``PYTHONPATH`` with which a child process finds the packages first.

        They are installed on first use.
        """

        def install_into(folder: Path) -> None:
            listed = folder / "requirements.txt"
            listed.write_text("\n".join(self.requirements) + "\n", encoding="utf-8")
            hint = "check the connection to the package index; advisor uses your pip settings"
            install_package(
                self.name,
                ["--target", str(folder), *self.options, "--requirement", str(listed)],
                hint,
            )

        paths = [str(fill_folder(self._folder, install_into))]
        if os.environ.get("PYTHONPATH"):
            paths.append(os.environ["PYTHONPATH"])
        return os.pathsep.join(paths)

    @property
    def _folder(self) -> Path:
        # Wheels with native code belong to one version of Python, which the tag names.
        inputs = [self.requirements, self.options, sys.implementation.cache_tag]
        return cache_root() / "packages" / f"{self.name}-{sha256_json({'inputs': inputs})[:16]}"


def install_package(
    name: str, arguments: Sequence[str], hint: str, python: Path | None = None
) -> None:
    """Run ``pip install`` with this environment's pip, for another ``python`` if one is given.

    ``name`` is what is installed.
    The UsageError has the last error that pip printed, and ``hint``.
    """
    for_python = ["--python", str(python)] if python else []
    pip = [
        sys.executable,
        "-P",
        "-m",
        "pip",
        *for_python,
        "--disable-pip-version-check",
        "--no-input",
    ]
    command = [*pip, "install", "--quiet", "--only-binary", ":all:", *arguments]
    # pip may be set to install into the user's own folder.
    environment = {**os.environ, "PIP_USER": "0"}
    try:
        outcome = run_program(command, timeout_s=TIMEOUT_S, environment=environment)
    except TimedOut as error:
        raise UsageError(
            f"{name} cannot be installed: pip did not end within {TIMEOUT_S:g} s",
            "check the connection to the package index",
        ) from error
    if outcome.status != 0:
        raise UsageError(
            f"{name} cannot be installed: {_find_reason(outcome.stderr)[:MOST_REASON]}", hint
        )


def _find_reason(printed: str) -> str:
    """Return the last error that pip printed, else its last line."""
    lines = [line.strip() for line in printed.strip().splitlines()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    last = (errors or lines or ["pip printed no reason"])[-1]
    return last.removeprefix("ERROR: ")
