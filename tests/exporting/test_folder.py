"""The folder of a bundle: nothing else is replaced, and a bundle only by force."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from advisor.core.errors import UsageError
from advisor.exporting.bundle import Bundle, export
from advisor.store import RunFolder


def test_another_folder_is_never_replaced(trained: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.txt").write_text("x")
    for force in (False, True):
        with pytest.raises(UsageError, match="is not a bundle of advisor"):
            export(trained.path, tmp_path / "precious", force=force)
    assert (tmp_path / "precious" / "thesis.txt").read_text() == "x"


def test_a_bundle_is_replaced_only_by_force(bundle: Bundle, trained: RunFolder, tmp_path: Path) -> None:
    own = Path(shutil.copytree(bundle.path, tmp_path / "bundle"))
    (own / "left over.txt").write_text("x")
    with pytest.raises(UsageError, match="already holds a bundle"):
        export(trained.path, own)
    export(trained.path, own, force=True)
    assert not (own / "left over.txt").exists()
