"""The samplers that ``--sampler`` names."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from advisor.core.errors import UsageError
from advisor.engine.question import GP, NSGA2, RANDOM, TPE

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

    from advisor.engine.scheduling.sampler import Candidate


def require_parts(name: str) -> None:
    """Refuse a sampler whose library is not installed; nothing is imported.

    Raises:
        UsageError: it is missing.
    """
    if name == GP and find_spec("torch") is None:
        raise UsageError(
            "--sampler: 'gp' is Optuna's Gaussian process, which needs PyTorch, and PyTorch is not installed",
            "pip install 'advisor[gp]', or take --sampler advisor",
        )


def make_sampler(name: str, candidates: list[Candidate], seed: int) -> BaseSampler:
    """Return the sampler of a study over accuracy, latency and size.

    Args:
        name: one of :data:`advisor.engine.question.SAMPLERS`.
        candidates: the search space with what is known of it, which only ``advisor`` looks at.
        seed: of its random numbers.
    """
    from optuna import samplers

    if name == TPE:
        return samplers.TPESampler(seed=seed)
    if name == NSGA2:
        return samplers.NSGAIISampler(seed=seed)
    if name == GP:
        return samplers.GPSampler(seed=seed)
    if name == RANDOM:
        return samplers.RandomSampler(seed=seed)
    from advisor.engine.scheduling.sampler import AdvisorSampler, Objective

    objectives = (
        Objective("accuracy", "maximize"),
        Objective("latency", "minimize", log=True),
        Objective("size", "minimize", log=True),
    )
    return AdvisorSampler(candidates, objectives, seed=seed)
