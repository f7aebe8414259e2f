"""The samplers that ``--sampler`` names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor.engine.question import GP, NSGA2, TPE

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler


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
