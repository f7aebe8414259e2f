"""List the offset fields of a FlatBuffer's tables, to check a file before it is read.

`_verify.py` states the fields of a model with it, `_metadata.py` those of a description.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial


@dataclass(frozen=True, slots=True)
class Field:
    """One offset field of a table, at ``slot`` of its vtable.

    ``kind`` is ``vector`` (of scalars or bytes, ``width`` bytes each), ``table``, ``tables`` or
    ``union``. ``of`` names the table in the schema; it is empty for a table whose offset fields
    need no visit.
    """

    slot: int
    kind: str
    of: str = ""
    width: int = 1


Schema = Mapping[str, tuple[Field, ...]]
"""The offset fields of each table by the table's name; the name "" is a table without any."""


def vector_fields(width: int, *slots: int) -> tuple[Field, ...]:
    """Return fields that hold numbers of ``width`` bytes."""
    return tuple(Field(slot, "vector", width=width) for slot in slots)


strings = partial(vector_fields, 1)
"""The same for fields that hold text."""
