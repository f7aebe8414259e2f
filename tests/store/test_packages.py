"""Packages beside those of this environment."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from advisor.core import UsageError
from advisor.store import Packages


def wheel(folder: Path, version: str) -> Path:
    """A wheel of the package ``tiny``, whose value is its version."""
    path = folder / f"tiny-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tiny.py", f"VALUE = '{version}'\n")
        info = f"tiny-{version}.dist-info"
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tiny\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", "others")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_USER", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))


@pytest.mark.integration
def test_packages_are_installed_once_and_found_before_others(tmp_path: Path) -> None:
    packages = Packages("tiny", ("tiny==1.2",))
    file = wheel(tmp_path, "1.2")
    path = packages.import_path()
    file.unlink()
    assert packages.import_path() == path
    assert path.endswith("others")
    code = "import tiny; print(tiny.VALUE)"
    seen = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": path}, capture_output=True, text=True)
    assert seen.stdout.split() == ["1.2"]


@pytest.mark.integration
def test_a_wheel_with_another_hash_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    wheel(tmp_path, "1.2")
    with pytest.raises(UsageError, match="tiny cannot be installed: .*HASH"):
        Packages("tiny", (f"tiny==1.2 --hash=sha256:{'0' * 64}",)).import_path()
    assert [path for path in (tmp_path / "cache" / "packages").iterdir() if path.is_dir()] == []
