"""Recognise files that hold images or labels in a form that is not read, and say what to do.

``_layouts.py`` asks where a path gives no images, so that the error names such a file. To add a
kind, add its extension to :data:`KINDS`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path, PurePath

from advisor.datasets._system_folders import is_system_name
from advisor.store import walk_folder

AS_FILES = "write each image as DIR/CLASS/NUMBER.png, for example with Image.fromarray of Pillow"
UNPACK = "unpack it, and name the folder"
AS_CSV = "save its sheet as CSV in UTF-8, and give that file"
CONVERT = "convert it to JPEG or PNG"
FRAMES = "write its frames as images, for example with ffmpeg"

ForeignKind = tuple[str, str]
"""A kind of file that is not read: what it is, with its article, and what to do."""

SUFFIXES_OF_BOXES = frozenset({".xml", ".json", ".yaml"})
FOLDERS_OF_BOXES = frozenset({"labels", "annotations"})
MOST_FILES = 2000  # Of a folder that are looked at
DICOM_MARK = b"DICM"
DICOM_MARK_AT = 128
_BATCH = re.compile(r"data_batch_\d+|test_batch|batches\.meta|train|test|meta")  # CIFAR's pickles
_IDX = re.compile(r".+[-.]idx[123][-.]ubyte(\.gz)?", re.IGNORECASE)
PICKLE_MARK = b"\x80"

ARRAYS = ("a file of NumPy arrays", AS_FILES)
HDF5 = ("an HDF5 file", AS_FILES)
PICKLE = ("a pickle of Python", AS_FILES)
IDX = ("an idx file of MNIST", AS_FILES)
DICOM = ("a DICOM image", CONVERT)
ARCHIVE = ("an archive that is not read where it is", UNPACK)
SPREADSHEET = ("a spreadsheet", AS_CSV)
VIDEO = ("a film", FRAMES)
TENSORS = ("a file of PyTorch", AS_FILES)
SHARDS = ("a file of records that is not read", "write it as class folders, WebDataset or Parquet")
MATLAB = (
    "a MATLAB file",
    "write what scipy.io.loadmat reads as a table with the columns path and label",
)
DATABASE = ("a database", "export a table as CSV with the columns path and label")
VOLUME = ("a medical volume", "write its slices as PNG images")
BYTES = ("a file of raw bytes", AS_FILES)

KINDS = {
    ".mat": MATLAB,
    ".npz": ARRAYS,
    ".npy": ARRAYS,
    ".h5": HDF5,
    ".hdf5": HDF5,
    ".pkl": PICKLE,
    ".pickle": PICKLE,
    ".p": PICKLE,
    ".pt": TENSORS,
    ".pth": TENSORS,
    ".dcm": DICOM,
    ".dicom": DICOM,
    ".nii": VOLUME,
    ".mha": VOLUME,
    ".nrrd": VOLUME,
    ".xlsx": SPREADSHEET,
    ".xls": SPREADSHEET,
    ".xlsm": SPREADSHEET,
    ".ods": SPREADSHEET,
    ".numbers": SPREADSHEET,
    ".gsheet": SPREADSHEET,
    ".sqlite": DATABASE,
    ".sqlite3": DATABASE,
    ".db": DATABASE,
    ".mdb": SHARDS,
    ".lmdb": SHARDS,
    ".rec": SHARDS,
    ".record": SHARDS,
    ".tfrec": SHARDS,
    ".beton": SHARDS,
    ".bin": BYTES,
    ".mp4": VIDEO,
    ".mov": VIDEO,
    ".avi": VIDEO,
    ".mkv": VIDEO,
    ".rar": ARCHIVE,
    ".7z": ARCHIVE,
    ".gz": ARCHIVE,
    ".tgz": ARCHIVE,
    ".bz2": ARCHIVE,
    ".xz": ARCHIVE,
    ".zst": ARCHIVE,
}
"""Kinds by the end of the name, in small letters."""

NAMES_THAT_TELL_NOTHING = frozenset({"thumbs.db", "desktop.db"})


def find_foreign_kind(file: Path) -> ForeignKind | None:
    """Return the kind of a file with images or labels that is not read; None for others."""
    name = file.name.casefold()
    if name in NAMES_THAT_TELL_NOTHING:
        return None
    if _IDX.fullmatch(name):
        return IDX
    if name.endswith(".nii.gz"):
        return VOLUME
    kind = KINDS.get(file.suffix.casefold())
    # Files without an extension, and CIFAR's batches, tell by their first bytes alone.
    if kind is not None or (file.suffix and not _BATCH.fullmatch(name)):
        return kind
    head = _read_head(file)
    if head[DICOM_MARK_AT:] == DICOM_MARK:
        return DICOM
    return PICKLE if head.startswith(PICKLE_MARK) and _BATCH.fullmatch(name) else None


def _read_head(file: Path) -> bytes:
    """Return the first bytes of a file; none if it cannot be read."""
    try:
        if not file.is_file():  # A pipe would never end
            return b""
        with file.open("rb") as content:
            return content.read(DICOM_MARK_AT + len(DICOM_MARK))
    except OSError:
        return b""


def find_foreign_file(folder: Path) -> tuple[Path, ForeignKind] | None:
    """Return the first file below a folder that has images or labels and is not read, or None."""
    for file in islice(_list_files_below(folder), MOST_FILES):
        kind = find_foreign_kind(file)
        if kind is not None:
            return file, kind
    return None


def _list_files_below(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder by name, without those of operating systems."""
    for place, inner, names in walk_folder(folder):
        inner[:] = sorted(name for name in inner if not is_system_name(name))
        for name in sorted(names):
            if not is_system_name(name):
                yield place / name


def is_annotation_name(name: str) -> bool:
    """Return whether a file is named as one that has annotations of images."""
    return PurePath(name).suffix.lower() in SUFFIXES_OF_BOXES


def find_box_file(path: Path) -> Path | None:
    """Return a file in a folder or one of its folders that looks like one of boxes, or None."""
    with os.scandir(path) as entries:
        visible = [entry for entry in entries if not is_system_name(entry.name)]
        inner = sorted(entry.path for entry in visible if entry.is_dir())
    for folder in (path, *map(Path, inner)):
        holds_boxes = folder.name.casefold() in FOLDERS_OF_BOXES
        for file in sorted(folder.iterdir()):
            suffix = file.suffix.lower()
            if suffix in SUFFIXES_OF_BOXES or (holds_boxes and suffix == ".txt"):
                return file
    return None
