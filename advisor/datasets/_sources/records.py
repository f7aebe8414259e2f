"""Read records of TensorFlow, as the folders of TensorFlow Datasets (TFDS) have them.

A record of ``animals-train.tfrecord-00000-of-00002`` is a ``tf.train.Example``. Beside the shards,
``features.json`` says which of its features are the image and the class, ``label.labels.txt`` has
the names of the classes, and ``dataset_info.json`` the number of records in each shard. Formats:
https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details,
https://www.tensorflow.org/datasets/external_tfrecord.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from advisor.core import ContentError, UsageError, listed, plural, require_extra
from advisor.datasets._category_files import require_beside
from advisor.datasets._read_errors import explain_error
from advisor.datasets._sources.base import (
    ImageObjects,
    Member,
    name_class,
    refuse_file,
    within_limit,
)
from advisor.store import message_type, read_json, read_labels

IMAGES = ("image", "image/encoded", "image_raw", "img", "jpg", "png")
LABELS = ("label", "labels", "image/class/text", "image/class/label", "class", "cls")
"""Usual names of features; the first that the records have is read
where no ``features.json`` says more.
"""

# example.proto and feature.proto of TensorFlow; an entry of a map is a message of key and value.
_EXAMPLE = {
    "Example": ("1 features Features",),
    "Features": ("1 feature Entry*",),
    "Entry": ("1 key string", "2 value Feature"),
    "Feature": ("1 bytes_list Bytes", "2 float_list Floats", "3 int64_list Integers"),
    "Bytes": ("1 value bytes*",),
    "Floats": ("1 value float*",),
    "Integers": ("1 value int64*",),
}
# Length and its checksum before a record, its own after it.
_HEAD = struct.Struct("<QI")
_FOOT = struct.Struct("<I")
_SHARD = re.compile(r".+-(?P<split>\w+)\.tfrecord-(?P<shard>\d{5})-of-\d{5}")
_KINDS = {"Image": "an image", "ClassLabel": "a class"}
_MOST_RECORDS = 20_000_000
_KINDS_OF_VALUES = ("bytes_list", "float_list", "int64_list")
_example = cache(lambda: message_type("Example", _EXAMPLE))

# The values of a record by name: bytes, numbers or integers.
Features = Mapping[str, Sequence[Any]]


class RecordFile:
    """Reads the images of a file of records by their places, which one pass over it finds."""

    def __init__(self, file: Path) -> None:
        if not re.search(r"\.tfrecord(-\d+-of-\d+)?$", file.name.lower()):
            hint = (
                "write it as TFRecord: tfds.builder(NAME,"
                ' file_format="tfrecord").download_and_prepare()'
            )
            raise UsageError(f"--data: '{file}' is in a format of TFDS that is not read", hint)
        require_extra(
            "google_crc32c",
            "tfds",
            f"--data: '{file}' needs google-crc32c, which is not installed",
        )
        self._file = file
        self._fault = ""
        try:
            self._ends = list(pairwise(self._find_places()))
            self._first = self._read_first_features()
        except (OSError, ValueError) as error:
            raise refuse_file(file, "TFRecord", error) from None
        self._image = self._find_feature("Image", IMAGES)

    def _find_places(self) -> Iterator[int]:
        """Yield where each record begins, and the end of the last whole one."""
        size = self._file.stat().st_size
        place = 0
        with self._file.open("rb") as file:
            for _ in range(_MOST_RECORDS):
                yield place
                file.seek(place)
                head = file.read(_HEAD.size)
                length, checksum = _HEAD.unpack(head) if len(head) == _HEAD.size else (size, None)
                if checksum is not None and _mask_checksum(head[:8]) != checksum:
                    self._fault = (
                        f"the length of the record at byte {place} is damaged, so that no more are"
                        " found"
                    )
                    return
                place += _HEAD.size + length + _FOOT.size
                if place > size:
                    self._fault = "the file ends in the middle of a record" if head else ""
                    return

    def _read_first_features(self) -> Features:
        """Return the features of the first record that can be read; ValueError for none."""
        for row in range(len(self._ends)):
            with suppress(ValueError):
                return self._read_features(row)
        raise ContentError(self._fault or "it has no whole record")

    def _read_features(self, row: int) -> Features:
        """Return the features of a record; ValueError if it is damaged, IndexError for no row."""
        start, end = self._ends[row]
        size = end - start - _HEAD.size - _FOOT.size
        within_limit(size)
        with self._file.open("rb") as file:
            file.seek(start + _HEAD.size)
            data = file.read(size)
            foot = file.read(_FOOT.size)
        if len(foot) != _FOOT.size or _mask_checksum(data) != _FOOT.unpack(foot)[0]:
            raise ContentError("damaged: its checksum is not the one that was written")
        try:
            entries = _example().FromString(data).features.feature
        except Exception as error:  # the parser has errors of its own
            raise ContentError(f"damaged: {explain_error(error)}") from None
        features: dict[str, Sequence[Any]] = {}
        for entry in entries:
            kinds = list(filter(entry.value.HasField, _KINDS_OF_VALUES))
            features[entry.key] = list(getattr(entry.value, kinds[0]).value) if kinds else ()
        return features

    def _find_feature(self, kind: str, usual: Sequence[str]) -> str:
        """Return the feature that is the image or the class; UsageError if none is."""
        names: list[str] = []
        # It is not there, or says nothing of features.
        with suppress(LookupError, TypeError, AttributeError):
            described = self._read_beside("features.json")["featuresDict"]["features"]
            names = []
            for name, feature in described.items():
                if str(feature["pythonClassName"]).endswith(f".{kind}"):
                    names.append(name)
        # Without the description of TFDS, the usual names of features have to do.
        present = names or self._first
        known = [name for name in usual if name in present] or names
        if not known or (len(known) > 1 and known[0] not in usual):
            raise UsageError(
                f"--data: which feature of '{self._file}' is {_KINDS[kind]}? It has"
                f" {listed(sorted(self._first))}",
                f"name it '{usual[0]}'",
            )
        return known[0]

    def _read_beside(self, name: str) -> Mapping[str, Any]:
        """Return what a file beside the shards says; nothing if it is not there."""
        place = require_beside(self._file.with_name(name), self._file)
        document = read_json(place) if place.is_file() else {}
        return document if isinstance(document, dict) else {}

    def _read_class_names(self, feature: str) -> Sequence[str]:
        """Return the names of the classes of a feature, by number."""
        place = require_beside(
            self._file.with_name(f"{feature.replace('/', '-')}.labels.txt"), self._file
        )
        return read_labels(place) if place.is_file() else ()

    @property
    def _end_members(self) -> list[Member]:
        """A member that stands for what is missing at the end of the file; none if nothing is."""
        fault = "; ".join(filter(None, (self._fault, self._describe_missing())))
        return [Member("the end", fault=fault)] if fault else []

    def _describe_missing(self) -> str:
        """Say that there are fewer records than ``dataset_info.json`` states, else nothing."""
        match = _SHARD.fullmatch(self._file.name)
        try:
            splits = self._read_beside("dataset_info.json")["splits"]
            lengths = {part["name"]: part["shardLengths"] for part in splits}
            stated = (
                int(lengths[match["split"]][int(match["shard"])]) if match else len(self._ends)
            )
        except (LookupError, TypeError, ValueError):
            return ""
        have = plural(len(self._ends), "whole record")
        if stated > len(self._ends):
            return f"the file has {have}, and dataset_info.json states {stated}"
        return ""

    def list_members(self) -> Iterator[Member]:
        """See :class:`.base.Archive`. The name of an image is the number of its record, from 0."""
        feature = self._find_feature("ClassLabel", LABELS)
        names = self._read_class_names(feature)
        for row in range(len(self._ends)):
            try:
                values = self._read_features(row).get(feature, ())
            except (OSError, ValueError) as error:
                yield Member(f"{row:07d}", fault=explain_error(error))
                continue
            value = values[0] if len(values) == 1 else None
            label = name_class(value, names)
            if isinstance(value, bytes):
                label = value.decode("utf-8", "replace").strip()
            yield Member(f"{row:07d}", label, "" if label else "no label")
        yield from self._end_members

    def list_objects(self) -> Iterator[ImageObjects]:
        """See :class:`.base.BoxedArchive`.

        ``objects/bbox`` are top, left, bottom and right as shares.
        """
        boxes = next((name for name in sorted(self._first) if name.endswith("/bbox")), "")
        label_of = f"{boxes.removesuffix('bbox')}label"
        if not boxes or label_of not in self._first:
            what = (
                "has no features 'objects/bbox' and 'objects/label', but"
                f" {listed(sorted(self._first))}"
            )
            raise UsageError(
                f"--data: '{self._file}' {what}", "write it with a Sequence of bbox and label"
            )
        names = self._read_class_names(label_of)
        for row in range(len(self._ends)):
            try:
                features = self._read_features(row)
            except (OSError, ValueError) as error:
                yield ImageObjects(f"{row:07d}", fault=explain_error(error))
                continue
            edges = features.get(boxes, ())
            labels = features.get(label_of, ())
            # All edges of an image are in one list, four for each box; a rest of fewer is no box.
            corners = zip(edges[1::4], edges[::4], edges[3::4], edges[2::4], strict=False)
            boxes_of_image = []
            for label, box in zip(labels, corners, strict=False):
                boxes_of_image.append((name_class(label, names), box))
            yield ImageObjects(f"{row:07d}", boxes_of_image)
        for record in self._end_members:
            yield ImageObjects(record.name, fault=record.fault)

    def read_member(self, name: str) -> bytes:
        """See :class:`.base.Archive`."""
        try:
            values = self._read_features(int(name))[self._image]
        except (IndexError, KeyError):
            raise FileNotFoundError(f"the file has no image in record '{name}'") from None
        if len(values) != 1 or not isinstance(values[0], bytes):
            raise ContentError("its feature has no bytes of one image")
        within_limit(len(values[0]))
        return bytes(values[0])


def _mask_checksum(data: bytes) -> int:
    """Return the masked CRC-32C of TFRecord."""
    import google_crc32c

    crc: int = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
