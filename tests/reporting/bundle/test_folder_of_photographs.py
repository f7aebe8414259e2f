"""A folder instead of photographs."""

import shutil
from pathlib import Path

import pytest

from advisor.core import UsageError
from advisor.reporting import predict
from tests.makers.searches import Searched


def test_all_images_of_a_folder_are_answered(with_images: Searched, photos: Path, tmp_path: Path) -> None:
    shutil.copytree(photos / "astronaut", tmp_path / "astronaut")
    answers = predict(with_images.run.path, [tmp_path / "astronaut", photos / "rocket 'é'" / "0.jpg"])
    names = [Path(answer.photograph).name for answer in answers]
    assert len(names) == len(list((photos / "astronaut").iterdir())) + 1
    assert sum(bool(answer.error) for answer in answers) == 1, "broken.jpg"
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("no image")
    with pytest.raises(UsageError, match="notes' has no photograph"):
        predict(with_images.run.path, [tmp_path / "astronaut", tmp_path / "notes"])
    with pytest.raises(UsageError, match="--tiles: only detectors run on tiles"):
        predict(with_images.run.path, [tmp_path / "astronaut"], tiles=2)
