"""Records of TensorFlow are read as TFDS writes them, without TensorFlow."""

import hashlib
import importlib.util
import json
import shutil
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from advisor.core import AmbiguousInput, UsageError, _errors as errors, install_extra
from advisor.datasets import Survey, list_files
from advisor.datasets._sources.records import _EXAMPLE, _mask_checksum
from advisor.store import message_type
from tests.builders import must_fail
from tests.datasets.test_sources import CLASSES, PICTURES, jpeg

pytest.importorskip("google_crc32c", reason="google-crc32c is an extra")

FEATURES = "tensorflow_datasets.core.features"


def example(values: dict[str, Any]) -> bytes:
    made = message_type("Example", _EXAMPLE)()
    for name, value in values.items():
        entry, several = made.features.feature.add(key=name), value if isinstance(value, list) else [value]
        kind = {bytes: "bytes_list", float: "float_list"}.get(type(several[0]) if several else int, "int64_list")
        getattr(entry.value, kind).value.extend(several)
    data: bytes = made.SerializeToString()
    return data


def framed(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", _mask_checksum(length)) + data + struct.pack("<I", _mask_checksum(data))


def examples(pictures: Sequence[tuple[str, bytes]], image: str = "image", label: str = "label") -> list[bytes]:
    return [example({image: data, label: CLASSES.index(name)}) for name, data in pictures]


def written(path: Path, records: Sequence[bytes]) -> Path:
    path.write_bytes(b"".join(map(framed, records)))
    return path


def described(folder: Path, **shards: Sequence[int]) -> None:
    """Write what TFDS writes beside the shards; ``shards`` are the records of each shard of each part."""
    said = {
        "image": {"pythonClassName": f"{FEATURES}.image_feature.Image"},
        "image/filename": {"pythonClassName": f"{FEATURES}.text_feature.Text"},
        "label": {"pythonClassName": f"{FEATURES}.class_label_feature.ClassLabel"},
    }
    splits = [{"name": name, "shardLengths": [str(each) for each in counts]} for name, counts in shards.items()]
    (folder / "features.json").write_text(json.dumps({"featuresDict": {"features": said}}))
    (folder / "dataset_info.json").write_text(json.dumps({"fileFormat": "tfrecord", "splits": splits}))
    (folder / "label.labels.txt").write_text("".join(f"{name}\n" for name in CLASSES))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of TFDS with two shards to train and one each for validation and test."""
    there = tmp_path / "animals" / "1.0.0"
    there.mkdir(parents=True)
    described(there, train=[2, 2], validation=[2], test=[2])
    more = [(name, jpeg(60 + number)) for number, (name, _) in enumerate(PICTURES[:2])]
    for name, pictures in {
        "train.tfrecord-00000-of-00002": PICTURES[:2],
        "train.tfrecord-00001-of-00002": PICTURES[2:4],
        "validation.tfrecord-00000-of-00001": PICTURES[4:],
        "test.tfrecord-00000-of-00001": more,
    }.items():
        written(there / f"animals-{name}", examples(pictures))
    return there


def test_a_folder_of_tfds_is_read_with_its_parts_and_classes(folder: Path) -> None:
    read = Survey.read(folder).dataset
    assert read.classes == CLASSES
    assert read.counts == (4, 4)
    assert [image.part for image in read.images] == ["holdout"] * 2 + ["train"] * 4 + ["validation"] * 2
    assert [image.sha256 for image in read.images[2:]] == [hashlib.sha256(data).hexdigest() for _, data in PICTURES]
    assert read.show_path(read.images[2].path) == "animals-train.tfrecord-00000-of-00002/0000000"
    assert Survey.read(folder.parent).dataset.fingerprint == read.fingerprint
    assert not read.rejected


def test_what_tensorflow_wrote_is_read(tmp_path: Path) -> None:
    """The file is from ``tf.io.TFRecordWriter`` of 2.21, with a feature of numbers and one of text in each record."""
    described(tmp_path, train=[4])
    shutil.copy(Path(__file__).with_name("by_tensorflow.tfrecord"), tmp_path / "animals-train.tfrecord-00000-of-00001")
    read = Survey.read(tmp_path).dataset
    assert [read.classes[each.label] for each in read.images] == [name for name, _ in PICTURES[:4]]
    assert read.rejected == ()


def test_without_files_beside_them_records_have_the_usual_names(tmp_path: Path) -> None:
    records = [example({"image/encoded": data, "image/class/text": name.encode()}) for name, data in PICTURES]
    listing = list_files(written(tmp_path / "a.tfrecord", records))
    assert [entry.label for entry in listing.entries] == [name for name, _ in PICTURES]
    numbered = list_files(written(tmp_path / "b.tfrecord", examples(PICTURES)))
    assert {entry.label for entry in numbered.entries} == {"0", "1"}


@pytest.mark.parametrize("lost", [1, 4, 100])
def test_a_shard_that_ends_in_the_middle_gives_its_whole_records_and_says_so(folder: Path, lost: int) -> None:
    file = folder / "animals-train.tfrecord-00001-of-00002"
    file.write_bytes(file.read_bytes()[:-lost])
    read = Survey.read(folder).dataset
    assert len(read.images) == 7
    assert [row.reason for row in read.rejected] == [
        "the file ends in the middle of a record; the file has 1 whole record, and dataset_info.json states 2"
    ]


def test_a_record_with_a_wrong_checksum_is_left_out(tmp_path: Path) -> None:
    file = written(tmp_path / "a.tfrecord", examples(PICTURES))
    data = bytearray(file.read_bytes())
    data[200] ^= 1
    file.write_bytes(data)
    read = Survey.read(file).dataset
    assert len(read.images) == 5
    assert [(row.path.name, row.reason) for row in read.rejected] == [
        ("0000000", "damaged: its checksum is not the one that was written")
    ]


def test_a_damaged_length_ends_the_search_for_records(tmp_path: Path) -> None:
    records = list(map(framed, examples(PICTURES)))
    records[4] = struct.pack("<Q", 2**62) + records[4][8:]
    (tmp_path / "a.tfrecord").write_bytes(b"".join(records))
    read = Survey.read(tmp_path / "a.tfrecord").dataset
    assert len(read.images) == 4
    assert [row.reason for row in read.rejected] == [
        f"the length of the record at byte {sum(map(len, records[:4]))} is damaged, so that no more are found"
    ]


@pytest.mark.parametrize("data", [b"", b"no such thing" * 100, framed(b"no message"), bytes(1000)])
def test_a_file_that_has_no_records_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.tfrecord").write_bytes(data)
    must_fail(UsageError, "cannot be read as TFRecord", list_files, tmp_path / "a.tfrecord")


def test_a_feature_of_another_type_is_named(tmp_path: Path) -> None:
    numbers = [example({"image": 7, "label": number % 2}) for number in range(4)]
    rejected = Survey.read(written(tmp_path / "a.tfrecord", numbers)).dataset.rejected
    assert {row.reason for row in rejected} == {"its feature has no bytes of one image"}
    with pytest.raises(UsageError, match=r"which feature of .* is an image\? It has kind, photograph") as caught:
        list_files(written(tmp_path / "b.tfrecord", examples(PICTURES, "photograph", "kind")))
    assert caught.value.hint == "name it 'image'"


def test_labels_without_a_name_and_records_without_a_label_are_left_out(folder: Path) -> None:
    unnamed = [example({"image": jpeg(70 + number), "label": label}) for number, label in enumerate((0, -1, 2, 1))]
    written(folder / "animals-test.tfrecord-00000-of-00001", [*unnamed, example({"image": jpeg(80)})])
    rejected = Survey.read(folder).dataset.rejected
    assert [(row.path.name, row.reason) for row in rejected] == [(f"000000{row}", "no label") for row in (1, 2, 4)]


def test_several_sets_of_tfds_are_not_mixed(folder: Path) -> None:
    other = folder.parent / "1.1.0"
    other.mkdir()
    described(other, train=[6])
    written(other / "animals-train.tfrecord-00000-of-00001", examples(PICTURES))
    caught = must_fail(AmbiguousInput, r"has 2 data sets of TFDS: '1\.0\.0', '1\.1\.0'", list_files, folder.parent)
    assert [reading.options["data"] for reading in caught.readings] == [str(folder), str(other)]


def test_another_format_of_tfds_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "animals-train.array_record-00000-of-00001").write_bytes(b"x")
    caught = must_fail(UsageError, "is in a format of TFDS that is not read", list_files, tmp_path)
    assert "tfrecord" in caught.hint


def test_damaged_files_beside_the_shards_are_named(folder: Path) -> None:
    (folder / "features.json").write_text('{"featuresDict": ')
    must_fail(UsageError, r"features\.json", list_files, folder)
    (folder / "features.json").write_text('{"featuresDict": [1]}')
    assert len(list_files(folder).entries) == 8


def test_without_the_extra_the_message_says_how_to_install_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(errors, "find_spec", lambda package: None if package == "google_crc32c" else found(package))
    caught = must_fail(UsageError, "needs google-crc32c, which is not installed", list_files, folder)
    assert install_extra("tfds") in caught.hint


def test_names_of_classes_behind_a_link_out_of_the_folder_are_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "label.labels.txt").rename(tmp_path / "elsewhere.txt")
    (folder / "label.labels.txt").symlink_to(tmp_path / "elsewhere.txt")
    must_fail(UsageError, "is a link out of its folder", list_files, folder)
