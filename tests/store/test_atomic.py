"""Files that are there whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.store.atomic import write_atomically


@pytest.mark.parametrize("content", ["Käse\n", b"\x00\xff"])
def test_the_new_content_replaces_the_old(tmp_path: Path, content: str | bytes) -> None:
    path = tmp_path / "file"
    write_atomically(path, "old")
    write_atomically(path, content)
    assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)


def test_what_cannot_be_written_leaves_the_old_content_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "\ud800")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    assert path.read_text() == "old"
