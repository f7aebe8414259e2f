"""Files of other tools are named, with what to give instead."""

from pathlib import Path

import pytest

from advisor.catalog._user_models.formats import format_of
from advisor.core import UsageError


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("net.safetensors", "weights without a network", "torch.export"),
        ("net.pth.tar", "is a pickle, which runs code", "torch.export"),
        ("NET.PT", "is a pickle, which runs code", "torch.export"),
        ("saved_model.pb", "the graph of a SavedModel", "give the folder of the SavedModel"),
        ("net.h5", "Keras' older format", "model.save('name.keras')"),
        ("net.mlmodel", "a Core ML file", "the model that it was converted from"),
        ("net.bin", "is none of: a .keras file", "from PyTorch: "),
    ],
)
def test_the_hint_fits_the_file(tmp_path: Path, name: str, message: str, hint: str) -> None:
    (tmp_path / name).write_text("x")
    with pytest.raises(UsageError) as refused:
        format_of(tmp_path / name)
    assert message in refused.value.message
    assert hint in refused.value.hint
