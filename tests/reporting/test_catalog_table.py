"""What the terminal says about a card."""

from __future__ import annotations

from dataclasses import replace

import pytest

from advisor.catalog import load_catalogue
from advisor.catalog.cards import Conversion
from advisor.reporting.catalog_table import print_card


@pytest.mark.parametrize(
    ("transposes", "left"),
    [(0, "no transposes left"), (3, "3 transposes left, with 12.5 % of the values that operators read and write")],
)
def test_a_card_says_how_its_file_was_converted(capsys: pytest.CaptureFixture[str], transposes: int, left: str) -> None:
    conversion = Conversion("onnx2tf 2.6.9", "onnxruntime 1.31.1", 32, 5.8e-6, 1.0, transposes, 0.125)
    print_card(replace(load_catalogue().card("mobilenet_v2_1.0_224"), conversion=conversion), here=False)
    shown = capsys.readouterr().out
    assert (
        "by onnx2tf 2.6.9; against onnxruntime 1.31.1 on 32 images: the same class on top in 100 %, "
        f"largest difference 6e-06 of the largest score; {left}\n"
    ) in shown
