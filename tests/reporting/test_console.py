"""Tables for any width and encoding."""

from __future__ import annotations

from io import BytesIO, TextIOWrapper

from rich.console import Console

from advisor.reporting.blocks import TableColumn
from advisor.reporting.console import NARROW, WIDE, table, write

NAME = "mobilenet_v3_large_minimalistic_1.0_224"
COLUMNS = (
    TableColumn("model", left=True, whole=True),
    TableColumn("ms"),
    TableColumn("licence", left=True, width=WIDE),
)


def shown(width: int, encoding: str = "utf-8") -> str:
    stream = BytesIO()
    console = Console(file=TextIOWrapper(stream, encoding=encoding, write_through=True), width=width)
    write([table(COLUMNS, [(NAME, "12.3 ±0.1", "Apache-2.0")], console)], console)
    return stream.getvalue().decode(encoding)


def test_a_name_stays_in_one_piece() -> None:
    assert NAME in shown(NARROW)


def test_a_figure_has_room_beside_a_name_where_it_is_narrow() -> None:
    assert "12.3 ±0.1" in shown(40)


def test_what_can_be_done_without_is_left_out_where_there_is_no_room() -> None:
    assert "Apache-2.0" in shown(WIDE)
    assert "Apache-2.0" not in shown(WIDE - 1)


def test_a_terminal_without_unicode_gets_ascii() -> None:
    said = shown(NARROW, "ascii")
    assert "12.3 +0.1" in said
    assert "----" in said
