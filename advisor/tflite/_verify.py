"""Check the structure of an untrusted flatbuffer before it is read.

`_model.py` calls it for each `.tflite` file, `_metadata.py` for each description in one. The
generated Python reader follows any offset in a file, and its object reader builds any number of
objects. This check visits every table, vector and string that those readers would visit. It
rejects a file with parts outside of it, or with more parts than its bytes can hold. A field that a
reader begins to read must be added to ``_SCHEMA`` first.
"""

import struct
from collections.abc import Mapping
from types import MappingProxyType

from advisor.tflite._schema_fields import Field, Schema, strings, vector_fields

FILE_IDENTIFIER = b"TFL3"
MAX_FILE_BYTES = 2**31 - 1
"""Flatbuffers address their parts by 31-bit offsets."""

MAX_TABLES = 50_000
"""Largest number of tables, enough for 10,000 operators (EfficientNet-B0: 1,466 for 239)."""

_MAX_HEADER = 512
"""Largest size of a table's header in bytes: 254 fields; the schema's largest table has 14."""

_SHARING = 2
"""Largest mean number of visits of a byte: writers may share strings and vectors."""

# Operator options that hold strings, which the reader copies:
# (slot of the union's type, its type) to the table.
_OPTIONS_WITH_STRINGS: Mapping[tuple[int, int], str] = MappingProxyType(
    {
        (10, 111): "VarHandleOptions",
        (26, 5): "StablehloCustomCallOptions",
        (26, 21): "StableHLOCompositeOptions",
    }
)

# Slots as in the TensorFlow Lite schema (version 3). Tables that hold only scalars or number
# vectors, which the reader views without a copy, are checked for their own place alone.
_SCHEMA: Schema = MappingProxyType(
    {
        "": (),
        "Model": (
            *strings(10),
            *vector_fields(4, 14),
            Field(6, "tables", "OperatorCode"),
            Field(8, "tables", "SubGraph"),
            Field(12, "tables", "Buffer"),
            Field(16, "tables", "Metadata"),
            Field(18, "tables", "SignatureDef"),
            Field(20, "tables", "ExternalBufferGroup"),
            Field(22, "tables", "ExternalBuffer"),
        ),
        "OperatorCode": strings(6),
        "SubGraph": (
            *strings(12),
            *vector_fields(4, 6, 8),
            Field(4, "tables", "Tensor"),
            Field(10, "tables", "Operator"),
        ),
        "Tensor": (
            *strings(10),
            *vector_fields(4, 4, 18),
            Field(12, "table", "QuantizationParameters"),
            Field(16, "table", "SparsityParameters"),
            Field(22, "tables", "VariantSubType"),
        ),
        "QuantizationParameters": (
            *vector_fields(4, 4, 6, 8),
            *vector_fields(8, 10),
            Field(14, "table"),
        ),
        "SparsityParameters": (*vector_fields(4, 4, 6), Field(8, "tables", "DimensionMetadata")),
        "DimensionMetadata": (Field(10, "table"), Field(14, "table")),
        "VariantSubType": vector_fields(4, 4),
        "Operator": (
            *vector_fields(4, 6, 8, 20),
            *vector_fields(1, 14, 18),
            Field(12, "union"),
            Field(28, "union"),
        ),
        "Buffer": vector_fields(1, 4),
        "Metadata": strings(4),
        "SignatureDef": (
            *strings(8),
            Field(4, "tables", "TensorMap"),
            Field(6, "tables", "TensorMap"),
        ),
        "TensorMap": strings(4),
        "ExternalBufferGroup": strings(4),
        "ExternalBuffer": strings(12),
        "StablehloCustomCallOptions": (
            *strings(4, 8),
            *vector_fields(4, 12),
            *vector_fields(1, 14),
        ),
        "VarHandleOptions": strings(4, 6),
        "StableHLOCompositeOptions": (*strings(4), *vector_fields(1, 8)),
    }
)


class Damage(Exception):
    """A fault of a file; its message follows "is not a usable .tflite file:"."""


class _Walk:
    """One visit of a file, with the remaining budget of tables and bytes."""

    def __init__(self, data: bytes, schema: Schema) -> None:
        self._data = data
        self._schema = schema
        self._bytes_left = _SHARING * len(data)
        self._tables_left = MAX_TABLES

    def read_number(self, form: str, position: int) -> int:
        width = struct.calcsize(form)
        if not 0 <= position <= len(self._data) - width:
            raise Damage(f"it points to byte {position}, but has {len(self._data)}")
        number: int = struct.unpack_from(form, self._data, position)[0]
        return number

    def _spend(self, count: int) -> None:
        self._bytes_left -= count
        if self._bytes_left < 0:
            raise Damage("its parts claim more bytes than it has")

    def visit_table(self, position: int, name: str) -> None:
        self._tables_left -= 1
        if self._tables_left < 0:
            raise Damage(f"it claims more than {MAX_TABLES} parts")
        start = position - self.read_number("<i", position)
        size = self.read_number("<H", start)
        table_size = self.read_number("<H", start + 2)
        is_header = 4 <= size <= _MAX_HEADER and size % 2 == 0
        if not is_header or start + size > len(self._data):
            raise Damage(f"the table at byte {position} has a broken header")
        if table_size < 4 or position + table_size > len(self._data):
            raise Damage(f"the table at byte {position} ends beyond the file")
        self._spend(table_size)
        offsets = struct.unpack_from(f"<{(size - 4) // 2}H", self._data, start + 4)
        if any(offset >= table_size for offset in offsets):
            raise Damage(f"the table at byte {position} has a field outside itself")
        by_slot = dict(zip(range(4, size, 2), offsets, strict=True))
        for field in self._schema[name]:
            # An offset of 0 stands for a field that the file leaves out.
            offset = by_slot.get(field.slot)
            if offset:
                self._visit_field(
                    field, position + offset, self._find_table(field, position, by_slot)
                )

    def _find_table(self, field: Field, position: int, by_slot: Mapping[int, int]) -> str:
        """Return the table that ``field`` holds, which for a union the type beside it names."""
        if field.kind != "union":
            return field.of
        offset = by_slot.get(field.slot - 2)
        kind = 0
        if offset:
            kind = self.read_number("<B", position + offset)
        return _OPTIONS_WITH_STRINGS.get((field.slot - 2, kind), "")

    def _visit_field(self, field: Field, position: int, of: str) -> None:
        target = position + self.read_number("<I", position)
        if field.kind in {"table", "union"}:
            self.visit_table(target, of)
            return
        count = self.read_number("<I", target)
        width = 4 if field.kind == "tables" else field.width
        if target + 4 + count * width > len(self._data):
            raise Damage(f"the list of {count} at byte {target} ends beyond the file")
        self._spend(count * width)
        if field.kind == "tables":
            for entry in range(target + 4, target + 4 + 4 * count, 4):
                self.visit_table(entry + self.read_number("<I", entry), of)


def verify_model(data: bytes) -> None:
    """Raise Damage if a part of the model ``data`` that a reader visits lies outside of it."""
    verify_tables(data, FILE_IDENTIFIER, _SCHEMA)


def verify_tables(data: bytes, identifier: bytes, schema: Schema) -> None:
    """Raise Damage if a part of a flatbuffer that ``schema`` knows lies outside of it."""
    if len(data) > MAX_FILE_BYTES:
        raise Damage(f"it has {len(data)} bytes, and the format ends at {MAX_FILE_BYTES}")
    if len(data) < 8:
        reason = "it is empty"
        if data:
            reason = f"it has only {len(data)} bytes"
        raise Damage(reason)
    if data[4:8] != identifier:
        raise Damage(f"bytes 4 to 8 read {data[4:8]!r}, not {identifier!r}")
    walk = _Walk(data, schema)
    walk.visit_table(walk.read_number("<I", 0), "Model")
