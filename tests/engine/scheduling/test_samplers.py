"""What ``--sampler`` names."""

from __future__ import annotations

import sys

import pytest

from advisor.core.errors import UsageError
from advisor.core.names import SAMPLERS
from advisor.engine.preview import preview
from advisor.engine.question import resolve


@pytest.mark.parametrize("name", [name for name in SAMPLERS if name != "gp"])
def test_each_sampler_can_be_asked_for(name: str) -> None:
    assert resolve({"sampler": name}).execution.sampler == name


def test_without_pytorch_the_gaussian_process_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed
    with pytest.raises(UsageError, match="PyTorch is not installed") as refused:
        preview(resolve({"sampler": "gp"}))
    assert "ondevice-advisor[gp]" in refused.value.hint


def test_an_unknown_sampler_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'nsga2'"):
        resolve({"sampler": "nsga3"})
