"""Test vectors of a bundle."""

from __future__ import annotations

import os
from typing import Any

import pytest

from advisor.exporting.model import ShippedModel
from advisor.exporting.shipping import make_vectors


def test_what_the_runtime_prints_is_not_shown(capfd: pytest.CaptureFixture[str]) -> None:
    def answering(_model: ShippedModel, images: Any) -> tuple[float, list[tuple[int, dict[str, Any]]]]:
        os.write(2, b"INFO: Created a delegate\n")
        return 0.1, [(0, {"label": int(images[0].max() > 0)})]

    model = ShippedModel(b"", ("cat", "dog"), 0.0, 1.0, 8, ())
    tolerance, (vector,) = make_vectors(model, answering)
    assert (tolerance, vector.answer, len(vector.pixels)) == (0.1, {"label": 1}, 8 * 8 * 3)
    assert capfd.readouterr().err == ""
