"""An aarch64 Python with the aarch64 runtime, made of the system's packages and of wheels, run by qemu and kept.

Nothing is installed on the machine: packages are fetched with the system's own package sources and unpacked into a
folder, wheels by the user's pip.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from filelock import FileLock
from platformdirs import user_cache_path

from tests.requirements import skip_or_fail

LEAST_QEMU = 10
"""Older ones crash on the runtime's library (7.2 does, with every processor that it knows)."""

PACKAGES = ("python3-minimal", "libpython3-stdlib", "libstdc++6", "zlib1g")
PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64")


def aarch64_python() -> Path:
    """Return a program that is an aarch64 Python with the runtime's installed version; skip where there is none."""
    qemu = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    if qemu is None:
        skip_or_fail("qemu-user is not installed")
    told = subprocess.run([qemu, "--version"], capture_output=True, text=True, timeout=30).stdout
    found = re.search(r"version (\d+)", told)
    if found is None or int(found[1]) < LEAST_QEMU:
        pytest.skip(f"qemu-user is older than {LEAST_QEMU}: {told.splitlines()[0] if told else 'it tells no version'}")
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        skip_or_fail("no package sources of Debian's kind")
    home = user_cache_path("advisor-tests") / f"aarch64-{metadata.version('ai-edge-litert')}"
    home.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{home}.lock"):
        if not home.is_dir():
            _make(home)
    return _program(home, qemu)


def _make(home: Path) -> None:
    work = home.with_name(home.name + ".part")
    shutil.rmtree(work, ignore_errors=True)
    try:
        python = _root(work)
        _wheels(work, python.name.removeprefix("python"))
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        said = getattr(error, "stderr", b"") or b""
        skip_or_fail(f"the aarch64 parts cannot be fetched: {said.decode('utf-8', 'replace').strip()[-200:]}")
    work.rename(home)


def _root(work: Path) -> Path:
    """Fetch and unpack the packages; return the interpreter."""
    state, root = work / "apt", work / "root"
    for folder in (state / "lists" / "partial", state / "cache" / "archives" / "partial", root):
        folder.mkdir(parents=True)
    (state / "status").touch()
    (state / "apt.conf").write_text(
        'APT::Architecture "arm64";\nAPT::Architectures { "arm64"; };\nAPT::Sandbox::User "";\n'
        f'Dir::State::Lists "{state}/lists";\nDir::State::status "{state}/status";\nDir::Cache "{state}/cache";\n'
        "Debug::NoLocking true;\n"
    )
    apt = ["apt-get", "-c", str(state / "apt.conf"), "-qq"]
    _run([*apt, "update"])
    _run([*apt, "install", "--download-only", "--yes", "--no-install-recommends", *PACKAGES])
    for package in sorted((state / "cache" / "archives").glob("*.deb")):
        _run(["dpkg-deb", "-x", str(package), str(root)])
    shutil.rmtree(state)
    (python,) = (path for path in (root / "usr" / "bin").glob("python3.*") if re.fullmatch(r"python3\.\d+", path.name))
    return python


def _wheels(work: Path, version: str) -> None:
    """Fetch the runtime's wheels for that Python and unpack them."""
    wheels, site = work / "wheels", work / "site"
    platforms = [part for name in PLATFORMS for part in ("--platform", name)]
    runtime = f"ai-edge-litert=={metadata.version('ai-edge-litert')}"
    pip = [sys.executable, "-m", "pip", "download", "-q", "--only-binary=:all:", "--python-version", version]
    _run([*pip, *platforms, "-d", str(wheels), runtime, "numpy"])
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
    shutil.rmtree(wheels)


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=300)


def _program(home: Path, qemu: str) -> Path:
    """Return a script that runs the emulated Python as if it were one of this machine."""
    (python,) = (p for p in (home / "root" / "usr" / "bin").glob("python3.*") if re.fullmatch(r"python3\.\d+", p.name))
    script = home / "python"
    text = f'#!/bin/sh\nexec {qemu} -L {home}/root -E PYTHONPATH={home}/site {python} -P "$@"\n'
    if not script.is_file() or script.read_text() != text:
        script.write_text(text)
        script.chmod(0o755)
    return script
