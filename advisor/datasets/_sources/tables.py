"""Read tables with the bytes of images, Parquet and Arrow, as Hugging Face writes them.

A child process opens them, see ``isolated.py``. The column ``image`` is a struct of ``bytes`` and
``path``, or bytes. The names of integer labels are in the metadata of the schema, as the feature
``ClassLabel``: https://huggingface.co/docs/datasets/about_dataset_features.
"""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.core import ContentError, UsageError, listed, require_extra, show_bytes
from advisor.datasets._read_errors import explain_error
from advisor.datasets._sources.base import (
    OBJECTS,
    ImageLabels,
    ImageObjects,
    Member,
    name_class,
    read_objects,
    refuse_file,
    within_limit,
)

if TYPE_CHECKING:
    import pyarrow as pa

IMAGES = ("image", "img", "jpg", "png", "picture", "photo")
LABELS = ("label", "labels", "class", "cls")
LABEL_SETS = (*LABELS, "tags", "categories", "classes")
MOST_GROUP_BYTES = 2**30
"""Largest row group that is read: as much stays in memory for each process that reads the
table.
"""

IMAGE_ROWS = 32
LABEL_ROWS = 4096
"""Rows that are decoded together: of a column of images, and of another one."""

MOST_ROWS = 2_000_000
"""Rows of one file: a file of 10 MB can state a hundred million,
and the list of them fills the memory.
"""

_METADATA = b"huggingface"
NEEDS_PYARROW = "is a table with images, which pyarrow reads, and it is not installed"


class _Table(ABC):
    """The base of Parquet and Arrow files: columns of images and labels, names of classes."""

    kind = ""

    def __init__(self, file: Path) -> None:
        require_extra("pyarrow", "arrow", f"--data: '{file}' {NEEDS_PYARROW}")
        self._file = file
        try:
            schema = self._open_file()
        except UsageError:
            raise
        except Exception as error:  # a damaged file fails in many ways
            raise refuse_file(file, self.kind, error) from None
        rows = self._count_rows()
        if rows > MOST_ROWS:
            raise UsageError(
                f"--data: '{file}' has {rows:,} rows, above the limit of {MOST_ROWS:,}",
                "divide it into several files, and name their folder",
            )
        repeated = [name for name, count in Counter(schema.names).items() if count > 1]
        if repeated:
            raise UsageError(
                f"--data: '{file}' has several columns named '{repeated[0][:80]}'",
                "give each column a name of its own",
            )
        self._image = find_image_column(schema)
        if not self._image:
            raise UsageError(
                f"--data: '{file}' has no column with the bytes of images, but"
                f" {_describe_columns(schema)}",
                "name it 'image': bytes, or a struct of bytes and path",
            )
        self._schema = schema

    @abstractmethod
    def _open_file(self) -> pa.Schema:
        """Open the file and return its schema."""

    @abstractmethod
    def _count_rows(self) -> int:
        """Return the number of rows that the opened file states."""

    @abstractmethod
    def _read_column(self, name: str) -> Iterator[Any]:
        """Yield the value of each row in a column."""

    @abstractmethod
    def _read_cell(self, row: int) -> Any:
        """Return the image of a row as Python values; IndexError if there is no such row."""

    def list_members(self) -> Iterator[Member]:
        """See :class:`.base.Archive`. The name of an image is the number of its row, from 0."""
        column, names = find_label_column(self._file, self._schema)
        try:
            for row, value in enumerate(self._read_column(column)):
                label = name_class(value, names)
                yield Member(f"{row:07d}", label, "" if label else "no label")
        except Exception as error:
            raise refuse_file(self._file, self.kind, error) from None

    def list_objects(self) -> Iterator[ImageObjects]:
        """See :class:`.base.BoxedArchive`.

        They are in the column ``objects``; the size is in ``width`` and ``height``.
        """
        column = next((name for name in OBJECTS if name in self._schema.names), "")
        if not column:
            raise UsageError(
                f"--data: '{self._file}' has no column 'objects' with boxes, but"
                f" {_describe_columns(self._schema)}",
                "name it 'objects': a list of bbox and category",
            )
        sides = []
        for name in ("width", "height"):
            is_stated = name in self._schema.names
            sides.append(self._read_column(name) if is_stated else repeat(None))
        try:
            names = _find_class_names(_read_column_facts(self._schema).get(column))
            rows = zip(self._read_column(column), *sides, strict=False)
            for row, (written, width, height) in enumerate(rows):
                yield ImageObjects(f"{row:07d}", read_objects(written, names), (width, height))
        except Exception as error:
            raise refuse_file(self._file, self.kind, error) from None

    def list_label_sets(self) -> Iterator[ImageLabels]:
        """See :class:`.base.LabelSetArchive`. The labels are names, or numbers of classes."""
        column = find_label_set_column(self._schema)
        if not column:
            return
        try:
            names = _find_class_names(_read_column_facts(self._schema).get(column))
            for row, values in enumerate(self._read_column(column)):
                labels = filter(None, (name_class(value, names) for value in values or ()))
                yield ImageLabels(f"{row:07d}", tuple(labels))
        except Exception as error:
            raise refuse_file(self._file, self.kind, error) from None

    def read_member(self, name: str) -> bytes:
        """See :class:`.base.Archive`."""
        try:
            column = int(name) if name.isdecimal() else -1
            cell = self._read_cell(column)
        except IndexError:
            raise FileNotFoundError(f"the table has no row '{name}'") from None
        except Exception as error:
            raise ContentError(f"damaged: {explain_error(error)}") from None
        data = cell.get("bytes") if isinstance(cell, dict) else cell
        if data is None:
            raise ContentError("the table has no bytes of it")
        within_limit(len(data))
        return bytes(data)


class ParquetTable(_Table):
    """Reads the images of a Parquet file, one row group at a time."""

    kind = "Parquet"

    def _open_file(self) -> pa.Schema:
        import pyarrow.parquet as pq

        self._parquet = pq.ParquetFile(self._file, memory_map=True)
        facts = self._parquet.metadata
        groups = list(map(facts.row_group, range(facts.num_row_groups)))
        largest = max((group.total_byte_size for group in groups), default=0)
        if largest > MOST_GROUP_BYTES:
            raise UsageError(
                f"--data: '{self._file}' has a row group of {show_bytes(largest)}, which must be"
                " in memory at once",
                f"write it again with row groups below {show_bytes(MOST_GROUP_BYTES)}, such as"
                " row_group_size=1000",
            )
        self._starts = [0]
        for group in groups:
            self._starts.append(self._starts[-1] + group.num_rows)
        self._lock = threading.Lock()
        # Why a row group cannot be read, by its number.
        self._faults: dict[int, str] = {}
        self._group = lru_cache(maxsize=2)(self._read_group)
        return self._parquet.schema_arrow

    def _count_rows(self) -> int:
        return self._starts[-1]

    def _read_column(self, name: str) -> Iterator[Any]:
        for batch in self._parquet.iter_batches(
            columns=[name], batch_size=LABEL_ROWS, use_threads=False
        ):
            column = batch.column(0)
            column.validate(full=True)
            yield from column.to_pylist()

    def _read_group(self, number: int) -> pa.ChunkedArray:
        """Return the images of a row group; ValueError if they are too large.

        A small file can name one large value often.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        facts = self._parquet.metadata
        group = facts.row_group(number)
        kind = self._schema.field(self._image).type
        leaf = f"{self._image}.bytes" if pa.types.is_struct(kind) else self._image
        if not _has_dictionary(group, leaf):
            return _read_images(self._parquet, number, self._image, IMAGE_ROWS)
        # Equal images stand in memory once, and the sizes are added before a row is decoded. The
        # rows are read together, as Arrow copies the list of images for each part of them.
        with pq.ParquetFile(
            self._file, metadata=facts, memory_map=True, read_dictionary=[leaf]
        ) as file:
            return _read_images(file, number, self._image, max(1, group.num_rows))

    def _read_cell(self, row: int) -> Any:
        from bisect import bisect_right

        if not 0 <= row < self._starts[-1]:
            raise IndexError(row)
        number = bisect_right(self._starts, row) - 1
        # Another thread may want the same group, which is read once.
        with self._lock:
            if number not in self._faults:
                try:
                    return self._group(number)[row - self._starts[number]].as_py()
                except Exception as error:
                    # A damaged group fails in many ways; trying it for each row takes hours.
                    self._faults[number] = explain_error(error)
            raise ContentError(self._faults[number])


class ArrowTable(_Table):
    """Reads the images of an Arrow file or stream, which is mapped into memory."""

    kind = "Arrow"

    def _open_file(self) -> pa.Schema:
        import pyarrow as pa

        mapped = pa.memory_map(str(self._file))
        try:
            self._table = pa.ipc.open_stream(mapped).read_all()
        except pa.ArrowInvalid:
            mapped.seek(0)
            self._table = pa.ipc.open_file(mapped).read_all()
        # A damaged one can name bytes that are not there.
        self._table.validate(full=True)
        return self._table.schema

    def _count_rows(self) -> int:
        return int(self._table.num_rows)

    def _read_column(self, name: str) -> Iterator[Any]:
        for chunk in self._table.column(name).chunks:
            yield from chunk.to_pylist()

    def _read_cell(self, row: int) -> Any:
        if not 0 <= row < self._table.num_rows:
            raise IndexError(row)
        return self._table.column(self._image)[row].as_py()


def _has_dictionary(group: Any, path: str) -> bool:
    """Return whether a row group has the values of a column in a list, and numbers in its rows."""
    columns = list(map(group.column, range(group.num_columns)))
    return any(column.path_in_schema == path and column.has_dictionary_page for column in columns)


def _read_images(file: Any, group: int, name: str, rows: int) -> pa.ChunkedArray:
    """Return the images of a row group, some rows at a time; ValueError if they are too large."""
    import pyarrow as pa

    chunks = []
    size = 0
    for batch in file.iter_batches(rows, row_groups=[group], columns=[name], use_threads=False):
        column = batch.column(0)
        column.validate(full=True)
        size += _bytes_of_rows(column)
        if size > MOST_GROUP_BYTES:
            raise ContentError(
                f"a row group has more than {show_bytes(MOST_GROUP_BYTES)} of images"
            )
        chunks.append(column)
    return pa.chunked_array(chunks)


def _bytes_of_rows(column: pa.Array) -> int:
    """Return how many bytes the images of all rows have, equal ones counted each time."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values = column.field("bytes") if pa.types.is_struct(column.type) else column
    if not pa.types.is_dictionary(values.type):
        return int(column.nbytes)
    lengths = pc.binary_length(values.dictionary).cast("int64")
    return pc.sum(lengths.take(values.indices)).as_py() or 0


def has_image_column(file: Path) -> bool:
    """Return whether a Parquet file has the bytes of images; False without pyarrow."""
    from importlib.util import find_spec

    if find_spec("pyarrow") is None:
        return False
    import pyarrow.parquet as pq

    try:
        return bool(find_image_column(pq.read_schema(file)))
    except Exception:  # the reader of manifests says what is wrong
        return False


def find_image_column(schema: pa.Schema) -> str:
    """Return the column with the bytes of images: of a usual name, or the only one; else empty."""
    import pyarrow as pa

    def has_bytes(kind: pa.DataType) -> bool:
        if pa.types.is_struct(kind):
            fields = map(kind.field, range(kind.num_fields))
            return any(field.name == "bytes" and has_bytes(field.type) for field in fields)
        return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))

    columns = [field.name for field in schema if has_bytes(field.type)]
    usual = [name for name in IMAGES if name in columns]
    if usual:
        return usual[0]
    # Of two columns with other names, none is known to be the image: one may be a mask.
    return columns[0] if len(columns) == 1 else ""


def find_label_column(file: Path, schema: pa.Schema) -> tuple[str, Sequence[str]]:
    """Return the column with the labels, and the names of its classes if the metadata has them."""
    import pyarrow as pa

    features = _read_features(schema)
    named = [name for name, feature in features.items() if feature.get("_type") == "ClassLabel"]
    present = set(schema.names)
    candidates = list(filter(present.__contains__, LABELS))
    candidates = candidates or list(filter(present.__contains__, named))
    if len(candidates) != 1 and not any(name in LABELS for name in candidates):
        raise UsageError(
            f"--data: '{file}' has no column 'label', but {_describe_columns(schema)}",
            "rename the column with the classes",
        )
    label = candidates[0]
    kind = schema.field(candidates[0]).type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not is_text and not pa.types.is_integer(kind):
        raise UsageError(
            f"--data: the column '{label}' of '{file}' has the type {kind}",
            "write one name or number for each image",
        )
    names = features.get(label, {}).get("names", ())
    return label, list(map(str, names)) if isinstance(names, list) else ()


def find_label_set_column(schema: pa.Schema) -> str:
    """Return the column with a list of labels for each image; empty for none.

    It has a usual name, or its metadata names classes.
    """
    import pyarrow as pa

    facts = _read_column_facts(schema)
    columns = []
    for field in schema:
        if not pa.types.is_list(field.type) and not pa.types.is_large_list(field.type):
            continue
        kind = field.type.value_type
        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        is_label = is_text or pa.types.is_integer(kind)
        if is_label and (field.name in LABEL_SETS or _find_class_names(facts.get(field.name))):
            columns.append(field.name)
    usual = [name for name in LABEL_SETS if name in columns]
    return next(iter([*usual, *columns]), "")


def _read_features(schema: pa.Schema) -> Mapping[str, Mapping[str, Any]]:
    """Return the features of the columns that are no lists."""
    features = {}
    for name, feature in _read_column_facts(schema).items():
        if isinstance(feature, dict):
            features[name] = feature
    return features


def _read_column_facts(schema: pa.Schema) -> Mapping[str, Any]:
    """Return the description of each column that ``datasets`` wrote into the metadata."""
    try:
        features = json.loads((schema.metadata or {})[_METADATA])["info"]["features"]
    except (KeyError, ValueError, TypeError, RecursionError):
        return {}
    return features if isinstance(features, dict) else {}


def _find_class_names(feature: Any) -> Sequence[str]:
    """Return the names of the classes that a feature of objects has somewhere inside."""
    if isinstance(feature, Mapping):
        names = feature.get("names")
        if feature.get("_type") == "ClassLabel" and isinstance(names, list):
            return list(map(str, names))
        return next(filter(None, map(_find_class_names, feature.values())), ())
    if isinstance(feature, list):
        return next(filter(None, map(_find_class_names, feature)), ())
    return ()


def _describe_columns(schema: pa.Schema) -> str:
    columns = [f"'{field.name[:80]}' ({str(field.type)[:80]})" for field in schema]
    return listed(columns) or "no column"
