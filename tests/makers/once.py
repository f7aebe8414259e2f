"""Make an expensive thing once for all workers of a test run."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

READY = ".ready.json"
"""A file beside a finished thing: what it held when it was made."""


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all workers of the test run; another run on this machine has another one."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def make_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """Let ``make`` write into an empty folder of ``shared_folder``, unless another worker has, and return the folder.

    The lock ends with its process. If that was killed, what it had begun is removed and made again.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        ready = Path(f"{folder}{READY}")
        if not ready.is_file():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            ready.write_text(json.dumps(hash_files(folder)), encoding="utf-8")
    return folder


def changed_things(shared: Path) -> list[str]:
    """Return the files that tests have changed, added or removed in things that were made once."""
    changed = []
    for ready in sorted(shared.rglob(f"*{READY}")):
        folder = Path(str(ready).removesuffix(READY))
        before = json.loads(ready.read_text(encoding="utf-8"))
        after = hash_files(folder)
        names = sorted(before.keys() | after.keys())
        changed += [str(folder / name) for name in names if before.get(name) != after.get(name)]
    return changed


def hash_files(folder: Path) -> dict[str, str]:
    """Return the hash of each file below a folder by its relative path; a link counts as its target."""
    hashes = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            hashes[str(path.relative_to(folder))] = f"link to {path.readlink()}"
        elif path.is_file():
            hashes[str(path.relative_to(folder))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return hashes
