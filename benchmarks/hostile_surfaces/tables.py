"""Tables with images or paths that are damaged, or small and large at once: none ends or fills the process."""

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from advisor.isolation import IN_CHILD
from benchmarks.hostile_surfaces.archives import LABELS, changed, jpeg, survey_set
from benchmarks.hostile_surfaces.ground import Case, Ground

BYTES = 130  # Tables of each kind with some bytes changed, or cut
MOST_BYTES = 1_000_000_000  # Memory that a refused table may take here


def cases(ground: Ground) -> Iterator[Case]:
    """Yield tables of each kind with changed bytes, and those with columns and values that nobody means."""
    ground.set_variables({IN_CHILD: None})
    import pyarrow as pa

    plain = pa.table({"image": [jpeg(number) for number in range(12)], "label": ["cat", "dog"] * 6})
    paths = pa.table({"path": [f"{number}.jpg" for number in range(12)], "label": ["cat", "dog"] * 6})
    wholes = {"a.parquet": parquet(plain), "c.parquet": parquet(paths)}
    wholes |= {"a.arrow": stream(plain), "b.arrow": file(plain)}
    for name, whole in wholes.items():
        for number in range(BYTES):
            yield f"{name}, bytes {number}", partial(_read, ground, name, changed(whole, number))
    for number, label in enumerate(LABELS):
        for column, value in (("label", label), ("image", label.encode("utf-8", "replace"))):
            try:
                table = plain.set_column(plain.schema.get_field_index(column), column, [[value] * 12])
            except UnicodeEncodeError:  # no table can have half a character
                continue
            for name, content in (("a.parquet", parquet(table)), ("a.arrow", stream(table))):
                yield f"{name}, {column} {number}", partial(_read, ground, name, content)
    for name, table in odd_tables(plain).items():
        for kind, content in (("a.parquet", parquet(table)), ("a.arrow", stream(table))):
            yield f"{kind}, {name}", partial(_read, ground, kind, content)
    noise = os.urandom(20_000_000)
    yield "a.parquet, one image often", partial(_read, ground, "a.parquet", often(pa, "image", noise))
    yield "a.parquet, one label often", partial(_read, ground, "a.parquet", often(pa, "label", noise.hex()))
    yield "a.arrow, zeros", partial(_read, ground, "a.arrow", stream(zeros(pa), "zstd"))


def odd_tables(plain: Any) -> Mapping[str, Any]:
    import pyarrow as pa

    images, labels = plain.column("image"), plain.column("label")
    empty = pa.nulls(12, pa.binary())
    return {
        "two labels": pa.Table.from_arrays([images, labels, labels], ["image", "label", "label"]),
        "two images": pa.Table.from_arrays([images, images, labels], ["image", "image", "label"]),
        "lists as paths": pa.table({"path": [[b"x"]] * 12, "label": labels}),
        "structs as paths": pa.table({"path": [{"a": 1}] * 12, "label": labels}),
        "no rows": plain.slice(0, 0),
        "no bytes": pa.table({"image": empty, "label": labels}),
        "no labels": pa.table({"image": images, "label": pa.nulls(12, pa.string())}),
        "floats": pa.table({"image": images, "label": [0.5] * 12}),
        "huge numbers": pa.table({"image": images, "label": [2**62, -(2**62)] * 6}),
        "no name": pa.Table.from_arrays([images, labels], ["", ""]),
        "long names": pa.Table.from_arrays([images, labels], ["image", "l" * 100_000]),
        "boxes of text": plain.append_column("objects", [[[{"bbox": ["a"], "category": None}]] * 12]),
    }


def parquet(table: Any, **options: object) -> bytes:
    import pyarrow.parquet as pq

    stored = io.BytesIO()
    pq.write_table(table, stored, **options)
    return stored.getvalue()


def stream(table: Any, compression: str | None = None) -> bytes:
    import pyarrow as pa

    stored = io.BytesIO()
    with pa.ipc.new_stream(stored, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    return stored.getvalue()


def file(table: Any) -> bytes:
    import pyarrow as pa

    stored = io.BytesIO()
    with pa.ipc.new_file(stored, table.schema) as writer:
        writer.write_table(table)
    return stored.getvalue()


def often(pa: Any, column: str, value: bytes | str) -> bytes:
    """Return a small table in which one large value stands in each of 600 rows."""
    repeated = pa.DictionaryArray.from_arrays(pa.array([0] * 600, pa.int32()), pa.array([value]))
    others = {"image": pa.array([jpeg(1)] * 600), "label": pa.array(["cat", "dog"] * 300)}
    return parquet(pa.table({**others, column: repeated}), store_schema=False)


def zeros(pa: Any) -> Any:
    """Return a table that is small only while it is compressed."""
    return pa.table({"image": [bytes(20_000_000)] * 12, "label": ["cat", "dog"] * 6})


def _read(ground: Ground, name: str, content: bytes) -> Sequence[str]:
    return ground.call_here(_survey, ground.fresh({name: content}) / name)


def _survey(path: Path) -> None:
    before = psutil.Process().memory_info().rss
    try:
        survey_set(path)
    finally:
        assert psutil.Process().memory_info().rss - before < MOST_BYTES
