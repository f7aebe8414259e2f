"""Models that the stages of a search make."""

from __future__ import annotations

from pathlib import Path

from advisor.engine.pipeline.materials import ANCHORS, MODEL, FloatModel
from advisor.store.files import sha256_file


def test_a_float_file_has_the_hash_of_its_bytes(tmp_path: Path) -> None:
    (tmp_path / MODEL).write_bytes(b"a model")
    found = FloatModel.within(tmp_path)
    assert (found.path, found.sha256) == (tmp_path / MODEL, sha256_file(tmp_path / MODEL))


def test_the_anchors_of_a_detector_lie_beside_it(tmp_path: Path) -> None:
    for name in (MODEL, ANCHORS):
        (tmp_path / name).write_bytes(b"content")
    assert FloatModel.within(tmp_path).anchors == tmp_path / ANCHORS


def test_a_classifier_has_no_anchors(tmp_path: Path) -> None:
    (tmp_path / MODEL).write_bytes(b"a model")
    assert FloatModel.within(tmp_path).anchors is None
