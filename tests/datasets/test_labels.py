"""Labels from every source pass one check before any work."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from advisor.core import UsageError
from advisor.datasets import list_files, survey
from tests.datasets.folders import fill, make

BAD = {"NUL": "gl\0ass", "escape": "gl\x1b[31mass", "line": "gl\nass", "long": "g" * 65_536}


def write_shard(folder: Path, label: str) -> Path:
    """Write a shard of WebDataset with two images, one of a bad label."""
    first, second = fill(folder / "images", 2)
    with tarfile.open(folder / "shard.tar", "w") as archive:
        for name, file, written in (("0", first, label), ("1", second, "metal")):
            for suffix, content in ((".jpg", file.read_bytes()), (".json", json.dumps({"label": written}).encode())):
                info = tarfile.TarInfo(name + suffix)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return folder / "shard.tar"


@pytest.mark.parametrize("kind", BAD)
def test_a_label_of_an_archive_is_refused_before_any_work(tmp_path: Path, kind: str) -> None:
    with pytest.raises(UsageError, match="with a control character, bytes that are not UTF-8, or more than 1000"):
        list_files(write_shard(tmp_path, BAD[kind]))


@pytest.mark.parametrize("kind", ["escape", "line"])
def test_a_class_folder_is_refused_in_the_same_way(tmp_path: Path, kind: str) -> None:
    root = make(tmp_path, metal=2, **{BAD[kind]: 2})
    with pytest.raises(UsageError, match="with a control character"):
        list_files(root)


def test_an_image_whose_name_is_not_utf8_is_left_out_and_named(tmp_path: Path) -> None:
    root = make(tmp_path, metal=2, glass=2)
    (root / "glass" / "100.jpg").rename(root / "glass" / "\udcff.jpg")
    dataset = survey(list_files(root)).dataset
    ((name, reason),) = [(dataset.show_path(row.path), row.reason) for row in dataset.rejected]
    assert (name, reason) == (r"glass/\udcff.jpg", "its path has a name that is not UTF-8: rename it")
