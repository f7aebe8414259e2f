"""``make search`` refuses a folder that does not exist before it sets anything up."""

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("starts_processes")


@pytest.mark.parametrize("arguments", ["--data 'my photos'", "--budget 50ms --data=my\\ photos"])
def test_missing_images_are_named_before_the_set_up(project: Path, tmp_path: Path, arguments: str) -> None:
    command = ["make", "search", f"ARGS={arguments}", f"VENV={tmp_path / 'venv'}"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "error: --data: 'my photos' does not exist" in done.stderr
    assert not (tmp_path / "venv").exists()
