"""The format of a file is found by its name; files that are none of them are refused, unread."""

from pathlib import Path

import pytest

from advisor.catalog.user_models.formats import format_of
from advisor.core.errors import UsageError


@pytest.mark.parametrize("name", ["net.pt", "net.pth", "net.ckpt", "net.pkl"])
def test_a_pickle_is_refused_unread(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(b"\x80\x04.")
    file.chmod(0)
    with pytest.raises(UsageError, match="is a pickle, which runs code when it is read") as raised:
        format_of(file)
    assert "torch.export.export(model.eval(), " in raised.value.hint


def test_a_program_of_pytorch_is_known_by_its_suffix(tmp_path: Path) -> None:
    (tmp_path / "net.pt2").touch()
    assert format_of(tmp_path / "net.pt2").what == "a .pt2 file"
