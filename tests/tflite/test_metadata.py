from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.core.errors import UsageError
from advisor.tflite.metadata import read_metadata
from advisor.tflite.metadata_writer import write_metadata

from .graphs import tiny_features
from .test_metadata_writer import described, tiny_classifier_of_images

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "models"


def test_a_file_without_metadata_says_nothing() -> None:
    assert read_metadata(tiny_features()) is None


DESCRIBED = write_metadata(tiny_classifier_of_images(2), described(("a", "b")))


@given(st.lists(st.tuples(st.integers(0, len(DESCRIBED) - 1), st.integers(0, 255)), min_size=1, max_size=6))
@settings(max_examples=400, deadline=None)
def test_damaged_metadata_gives_an_answer_or_a_usage_error(damage: list[tuple[int, int]]) -> None:
    data = bytearray(DESCRIBED)
    for place, value in damage:
        data[place] = value
    try:
        read_metadata(bytes(data))
    except UsageError as error:
        assert "not a usable .tflite file" in error.message


def test_every_truncation_is_an_answer_or_a_usage_error() -> None:
    refused = 0
    for length in range(len(DESCRIBED)):
        try:
            read_metadata(DESCRIBED[:length])
        except UsageError:
            refused += 1
    assert refused == len(DESCRIBED)


def test_a_missing_file_of_labels_is_named() -> None:
    stream = io.BytesIO(DESCRIBED)
    with zipfile.ZipFile(stream) as archive:
        start = archive.infolist()[0].header_offset
    with io.BytesIO() as other:
        other.write(DESCRIBED[:start])
        with zipfile.ZipFile(other, "w") as archive:
            archive.writestr("other.txt", "a\n")
        with pytest.raises(UsageError, match=r"'labels\.txt' that it names is not in it"):
            read_metadata(other.getvalue())


def test_a_file_of_labels_that_unpacks_without_end_is_refused() -> None:
    stream = io.BytesIO(DESCRIBED)
    with zipfile.ZipFile(stream) as archive:
        start = archive.infolist()[0].header_offset
    with io.BytesIO() as other:
        other.write(DESCRIBED[:start])
        with zipfile.ZipFile(other, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("labels.txt", bytes(20 * 2**20))
        with pytest.raises(UsageError, match="more than 16777216 bytes"):
            read_metadata(other.getvalue())


@pytest.mark.skipif(not SHARED.is_dir(), reason="the foreign models are not beside the checkout")
def test_metadata_of_others_is_read() -> None:
    found = read_metadata((SHARED / "tf2_mobilenet_v2_1.0_224_ptq.tflite").read_bytes())
    assert found is not None
    assert (found.mean, found.std, len(found.labels)) == ((127.5,), (127.5,), 1001)
    assert found.labels[1] == "tench, Tinca tinca"
