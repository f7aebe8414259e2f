"""Install packages that do not fit those of this environment, with the user's pip and its index, proxy, certificates.

Only wheels are installed, so that no set-up code of a package runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from advisor.core.errors import UsageError
from advisor.isolation.process import TimedOut, run_program
from advisor.store.cache import cache_root, filled
from advisor.store.files import sha256_json

TIMEOUT_S = 600.0

_LISTED = "requirements.txt"


@dataclass(frozen=True)
class Packages:
    """Packages in a folder of the cache, beside those of this environment.

    Attributes:
        name: of the folder, and in errors: the package that is wanted.
        requirements: lines of a requirements file: every package with its exact version, and best with its hash.
        options: more options of ``pip install``, such as ``--no-deps``.
    """

    name: str
    requirements: tuple[str, ...]
    options: tuple[str, ...] = ()


def is_installed(packages: Packages) -> bool:
    """Return whether the packages are in the cache already."""
    return _folder(packages).is_dir()


def import_path(packages: Packages) -> str:
    """Return the ``PYTHONPATH`` with which a child process finds these packages first; install them on first use.

    Raises:
        UsageError: pip cannot install them.
    """
    found = str(filled(_folder(packages), partial(_fill, packages)))
    return os.pathsep.join(path for path in (found, os.environ.get("PYTHONPATH", "")) if path)


def _folder(packages: Packages) -> Path:
    inputs = [packages.requirements, packages.options, sys.implementation.cache_tag]
    return cache_root() / "packages" / f"{packages.name}-{sha256_json({'inputs': inputs})[:16]}"


def _fill(packages: Packages, folder: Path) -> None:
    listed = folder / _LISTED
    listed.write_text("\n".join(packages.requirements) + "\n", encoding="utf-8")
    hint = "check the connection to the package index; advisor uses your pip settings"
    install(packages.name, ["--target", str(folder), *packages.options, "--requirement", str(listed)], hint)


def install(name: str, arguments: Sequence[str], hint: str, python: Path | None = None) -> None:
    """Run ``pip install`` with this environment's pip, for another ``python`` if one is given.

    Args:
        name: what is installed, for errors.
        arguments: of ``pip install``.
        hint: what to do if pip refuses.
        python: of the environment to install into.

    Raises:
        UsageError: pip cannot install it; the last error that pip printed is given.
    """
    other = ["--python", str(python)] if python else []
    pip = [sys.executable, "-P", "-m", "pip", *other, "--disable-pip-version-check", "--no-input"]
    command = [*pip, "install", "--quiet", "--only-binary", ":all:", *arguments]
    environment = {**os.environ, "PIP_USER": "0"}  # the user's folder is no place for them
    try:
        done = run_program(command, timeout_s=TIMEOUT_S, environment=environment)
    except TimedOut as error:
        raise UsageError(
            f"{name} cannot be installed: pip did not end within {TIMEOUT_S:g} s",
            "check the connection to the package index",
        ) from error
    if done.status != 0:
        errors = [line.strip() for line in done.stderr.splitlines() if line.strip().startswith("ERROR:")]
        reason = (errors or done.stderr.strip().splitlines() or ["pip printed no reason"])[-1].removeprefix("ERROR: ")
        raise UsageError(f"{name} cannot be installed: {reason[:300]}", hint)
