"""A Swift compiler for tests: that of the PATH, or one that the command in SWIFT_RUNNER reaches (``make swift``)."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def swift_runner(starts_processes: None) -> list[str]:
    """Words before a command that runs where Swift is installed."""
    runner = shlex.split(os.environ.get("SWIFT_RUNNER", ""))
    if not runner and shutil.which("swiftc") is None:
        # Continuous integration cannot install it: Debian 12 has no package.
        pytest.skip("no Swift compiler: make swift installs one and says what to export")
    return runner


def run_swift(runner: list[str], folder: Path, *command: str) -> str:
    """Run a command without a remark in a folder, from which its paths count; return what it prints."""
    ran = subprocess.run([*runner, *command], cwd=folder, capture_output=True, text=True, timeout=500, check=False)
    assert (ran.stderr, ran.returncode) == ("", 0)
    return ran.stdout


def compile_swift(runner: list[str], folder: Path, sources: list[str], modules: tuple[str, ...] = ()) -> None:
    """Compile a program as Swift 5 and as Swift 6, which stays; the modules that it imports have a file each."""
    for module in modules:
        options = ["-module-name", module, "-emit-module-path", f"{module}.swiftmodule", "-c", f"{module}.swift"]
        run_swift(runner, folder, "swiftc", "-parse-as-library", *options)
    files = [*sources, *(f"{module}.o" for module in modules)]
    for version in ("5", "6"):
        # One unit: a file at a time takes twice the time.
        run_swift(runner, folder, "swiftc", "-swift-version", version, "-wmo", "-I", ".", *files, "-o", "program")
