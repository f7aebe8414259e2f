"""What ``--sampler`` names."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from advisor.core.errors import UsageError
from advisor.search.preview import preview
from advisor.search.request import resolve
from advisor.search.samplers import SAMPLERS

TORCH = find_spec("torch") is not None


@pytest.mark.parametrize("name", [name for name in SAMPLERS if name != "gp"])
def test_each_sampler_can_be_asked_for(name: str) -> None:
    assert resolve({"sampler": name}).sampler == name


@pytest.mark.skipif(TORCH, reason="PyTorch is installed")
def test_without_pytorch_the_gaussian_process_is_refused_with_what_to_install() -> None:
    with pytest.raises(UsageError, match="PyTorch is not installed") as refused:
        preview(resolve({"sampler": "gp"}))
    assert "advisor[gp]" in refused.value.hint


def test_an_unknown_sampler_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'nsga2'"):
        resolve({"sampler": "nsga3"})
