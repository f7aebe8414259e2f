"""The samplers that ``--sampler`` names."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from advisor.core.errors import UsageError
from advisor.engine.question import GP, NSGA2, TPE

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler


def require_parts(name: str) -> None:
    """Refuse a sampler whose library is not installed, without importing it.

    Raises:
        UsageError: the library is missing.
    """
    if name == GP and find_spec("torch") is None:
        raise UsageError(
            "--sampler: 'gp' is Optuna's Gaussian process, which needs PyTorch, and PyTorch is not installed",
            "pip install 'advisor[gp]', or use --sampler advisor",
        )


def optuna_sampler(name: str, seed: int) -> BaseSampler:
    """Return one of Optuna's own samplers."""
    from optuna import samplers

    if name == TPE:
        return samplers.TPESampler(seed=seed)
    if name == NSGA2:
        return samplers.NSGAIISampler(seed=seed)
    if name == GP:
        return samplers.GPSampler(seed=seed)
    return samplers.RandomSampler(seed=seed)
