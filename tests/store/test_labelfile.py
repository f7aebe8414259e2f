"""Files with one class name a line, as several tools write them."""

import codecs
from pathlib import Path

import pytest

from advisor.store import labels_in, read_labels
from tests.tables import with_cases


@with_cases
def test_neither_marks_nor_numbers_nor_blanks_are_part_of_a_name(text: str) -> None:
    assert labels_in(text) == ("glass", "metal")


@pytest.mark.parametrize("names", [("7 up", "8 ball"), ("101 dalmatians",), ("0", "1"), ("1 euro", "2 euro", "5 euro")])
def test_numbers_that_do_not_count_the_lines_belong_to_the_names(names: tuple[str, ...]) -> None:
    assert labels_in("\n".join(names)) == names


@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE])
def test_the_byte_order_mark_says_the_encoding(tmp_path: Path, mark: bytes) -> None:
    encoding = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}.get(mark, "utf-8")
    (tmp_path / "labels.txt").write_bytes(mark + "Müll\nPapier\n".encode(encoding))
    assert read_labels(tmp_path / "labels.txt") == ("Müll", "Papier")
