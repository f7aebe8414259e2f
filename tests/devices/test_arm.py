"""The agent on another architecture: an aarch64 Python with the aarch64 runtime under qemu, outputs as on the host."""

import json
import re
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from advisor.devices import timings_of_agent
from tests.builders import write_file
from tests.makers.fetched import fetch_once, run_command
from tests.measurement import small_models
from tests.requirements import skip_or_fail
from tests.tables import read_table

# An aarch64 Python with the aarch64 runtime, made of the system's packages and of wheels, run by qemu and kept.
#
# Nothing is installed on the machine: packages are fetched with the system's own package sources and unpacked into a
# folder, wheels by the user's pip.

LEAST_QEMU = 10
"""Older ones crash on the runtime's library (7.2 does, with every processor that it knows)."""
NEWER_DEBIAN = "trixie"
"""The release of Debian whose qemu-user is new enough and runs on the older ones: it is linked statically."""

PACKAGES = ("python3-minimal", "libpython3-stdlib", "libstdc++6", "zlib1g")
PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64")
OUTPUTS = read_table(__file__, "texts.yaml")["outputs"]


def aarch64_python() -> Path:
    """Return a program that is an aarch64 Python with the runtime's installed version; skip where there is none."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        skip_or_fail("no package sources of Debian's kind")
    qemu = _installed_qemu() or fetch_once(f"qemu-{NEWER_DEBIAN}", _fetch_qemu) / "usr" / "bin" / "qemu-aarch64"
    home = fetch_once(f"aarch64-{metadata.version('ai-edge-litert')}", _make)
    return _program(home, str(qemu))


def _installed_qemu() -> str | None:
    """Return the installed emulator, or None where there is none or it is too old."""
    qemu = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    if qemu is None:
        return None
    told = subprocess.run([qemu, "--version"], capture_output=True, text=True, timeout=30).stdout
    found = re.search(r"version (\d+)", told)
    return qemu if found is not None and int(found[1]) >= LEAST_QEMU else None


def _fetch_qemu(work: Path) -> None:
    """Unpack the emulator of a newer release, fetched from where this system's own packages come from."""
    told = run_command(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Component: main"]
    )
    if not told.strip():
        skip_or_fail("qemu-user is too old, and this system names no package source for a newer one")
    apt = _apt(
        work, run_command(["dpkg", "--print-architecture"]).strip(), f"deb {told.split()[0]} {NEWER_DEBIAN} main\n"
    )
    _unpack(apt, work, work, "qemu-user")


def _make(work: Path) -> None:
    """Fetch and unpack an aarch64 Python and the runtime's wheels for it."""
    root = work / "root"
    root.mkdir()
    _unpack(_apt(work, "arm64"), work, root, *PACKAGES)
    _wheels(work, _python(root).name.removeprefix("python"))


def _python(root: Path) -> Path:
    (python,) = (path for path in (root / "usr" / "bin").glob("python3.*") if re.fullmatch(r"python3\.\d+", path.name))
    return python


def _apt(work: Path, architecture: str, sources: str | None = None) -> list[str]:
    """Return an apt-get that keeps its state in ``work``, for that architecture, with the system's sources or these."""
    state = work / "apt"
    for folder in (state / "lists" / "partial", state / "cache" / "archives" / "partial"):
        folder.mkdir(parents=True)
    (state / "status").touch()
    text = (
        f'APT::Architecture "{architecture}";\nAPT::Architectures {{ "{architecture}"; }};\nAPT::Sandbox::User "";\n'
        f'Dir::State::Lists "{state}/lists";\nDir::State::status "{state}/status";\nDir::Cache "{state}/cache";\n'
        "Debug::NoLocking true;\n"
    )
    if sources is not None:
        (state / "sources.list").write_text(sources)
        text += f'Dir::Etc::sourcelist "{state}/sources.list";\nDir::Etc::sourceparts "-";\n'
    (state / "apt.conf").write_text(text)
    return ["apt-get", "-c", str(state / "apt.conf"), "-qq"]


def _unpack(apt: list[str], work: Path, into: Path, *packages: str) -> None:
    """Fetch the packages and what they depend on, and unpack them into a folder."""
    run_command([*apt, "update"])
    run_command([*apt, "install", "--download-only", "--yes", "--no-install-recommends", *packages])
    for package in sorted((work / "apt" / "cache" / "archives").glob("*.deb")):
        run_command(["dpkg-deb", "-x", str(package), str(into)])
    shutil.rmtree(work / "apt")


def _wheels(work: Path, version: str) -> None:
    """Fetch the runtime's wheels for that Python and unpack them."""
    wheels, site = work / "wheels", work / "site"
    platforms = [part for name in PLATFORMS for part in ("--platform", name)]
    runtime = f"ai-edge-litert=={metadata.version('ai-edge-litert')}"
    pip = [sys.executable, "-m", "pip", "download", "-q", "--only-binary=:all:", "--python-version", version]
    run_command([*pip, *platforms, "-d", str(wheels), runtime, "numpy"])
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
    shutil.rmtree(wheels)


def _program(home: Path, qemu: str) -> Path:
    """Return a script that runs the emulated Python as if it were one of this machine."""
    python = _python(home / "root")
    script = home / "python"
    text = f'#!/bin/sh\nexec {qemu} -L {home}/root -E PYTHONPATH={home}/site {python} -P "$@"\n'
    if not script.is_file() or script.read_text() != text:
        script.write_text(text)
        script.chmod(0o755)
    return script


pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]


def test_the_agent_times_there_and_outputs_are_those_of_the_host(agent: Path, model: Path, tmp_path: Path) -> None:
    emulated = aarch64_python()
    quantized = write_file(tmp_path / "int8.tflite", small_models.quantized(small_models.classifier(), tmp_path, 32))
    script = write_file(tmp_path / "outputs.py", OUTPUTS)
    arguments = [str(script), str(agent), str(model), str(quantized)]
    there, here = (
        json.loads(subprocess.run([str(python), *arguments], check=True, capture_output=True, timeout=300).stdout)
        for python in (emulated, Path(sys.executable))
    )
    assert there["machine"] == "aarch64"
    (timing,) = timings_of_agent(there["timed"], [model], [str(model)])
    assert timing.median_ms > 0
    assert timing.runtime.startswith("ai-edge-litert==")
    assert there["outputs"][str(quantized)] == here["outputs"][str(quantized)]
    for theirs, ours in zip(there["outputs"][str(model)][0][0], here["outputs"][str(model)][0][0], strict=True):
        assert theirs == pytest.approx(ours, abs=1e-6)
