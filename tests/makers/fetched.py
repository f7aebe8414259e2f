"""What tests fetch from package registries: once, into the user's cache."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock
from platformdirs import user_cache_path

from tests.requirements import skip_or_fail


def fetch_once(name: str, fetch_into: Callable[[Path], None]) -> Path:
    """Return the folder ``name`` of the tests' cache, which ``fetch_into`` fills where it is missing."""
    home = user_cache_path("advisor-tests") / name
    home.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{home}.lock"):
        if not home.is_dir():
            work = home.with_name(home.name + ".part")
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir()
            try:
                fetch_into(work)
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
                said = (getattr(error, "stderr", b"") or b"").decode("utf-8", "replace").strip()
                skip_or_fail(f"{name} cannot be fetched: {said[-200:] or error}")
            work.rename(home)
    return home


def run_command(command: list[str], folder: Path | None = None) -> str:
    """Run what fetches or unpacks, and return what it prints."""
    return subprocess.run(command, check=True, capture_output=True, timeout=300, cwd=folder).stdout.decode()
