"""A question may name images in an object store, which are fetched before they are read."""

from pathlib import Path

import pytest

from advisor.core import UsageError
from advisor.engine import resolve
from advisor.engine._space.question_images import read_images
from tests.datasets.folders import make
from tests.makers.stores import S3

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("own_folders")]


def test_images_and_unknown_images_are_those_of_the_store(s3: S3, tmp_path: Path) -> None:
    known, unknown = make(tmp_path / "known", cat=12, dog=12), make(tmp_path / "unknown", thing=8)
    s3.upload(known, "photos/known")
    s3.upload(unknown, "photos/unknown")
    there, here = (
        resolve({"data": f"{at}/known", "unknown": f"{at}/unknown"}) for at in ("s3://photos", str(tmp_path))
    )
    assert there.written["data"] == "s3://photos/known"
    assert there.run_name == "known"
    said: list[str] = []
    fetched = read_images(there.question, said.append, there.execution)
    read = read_images(here.question, said.append)
    assert fetched.dataset.fingerprint == read.dataset.fingerprint
    assert fetched.split == read.split
    assert [each.sha256 for each in fetched.others] == [each.sha256 for each in read.others]
    assert len(fetched.others) == 8
    assert "reading images of s3://photos/known" in said


def test_offline_nothing_is_fetched(s3: S3) -> None:
    request = resolve({"data": "s3://photos/known", "offline": True})
    with pytest.raises(UsageError, match="--offline: 's3://photos/known' is not in the cache"):
        read_images(request.question, lambda _text: None, request.execution)
    assert s3.requests == []
