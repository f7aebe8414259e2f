"""Models that the stages of a search make."""

from __future__ import annotations

from pathlib import Path

from advisor.engine.pipeline.materials import MODEL, FloatModel
from advisor.store.files import sha256_file


def test_a_float_file_has_the_hash_of_its_bytes(tmp_path: Path) -> None:
    (tmp_path / MODEL).write_bytes(b"a model")
    found = FloatModel.within(tmp_path)
    assert (found.path, found.sha256) == (tmp_path / MODEL, sha256_file(tmp_path / MODEL))
