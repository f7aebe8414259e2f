"""A pipe in a folder is not waited for."""

import os
from pathlib import Path

import pytest

from advisor.core import UsageError
from advisor.datasets import list_files
from tests.datasets.folders import make


@pytest.mark.parametrize(
    "name", ["a.zip", "a.tar", "a.parquet", "a.arrow", "a.tfrecord", "metadata.csv", "a.jsonl", "a.jpg"]
)
def test_a_pipe_beside_nothing_is_no_data_set(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(UsageError):
        list_files(tmp_path)


@pytest.mark.parametrize("name", ["a.zip", "metadata.csv", "labels.parquet"])
def test_a_pipe_beside_class_folders_changes_nothing(tmp_path: Path, name: str) -> None:
    root = make(tmp_path, cat=2, dog=2)
    os.mkfifo(root / name)
    assert len(list_files(root).entries) == 4
