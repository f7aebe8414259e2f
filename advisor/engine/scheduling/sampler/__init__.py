"""An Optuna sampler for a table of candidates of which much is known beforehand.

The search space is a list (model x recipe x threads). Each entry comes with a prior of what it may reach and with costs
that are known or predicted. The sampler starts with the entries that look best by these. It learns from each result how
far the prior can be trusted, and suggests the entry with the largest expected gain of hypervolume a second.

It needs Optuna and numpy only, and works with any study of two or three objectives.
"""

from advisor.engine.scheduling.sampler.acquisition import ALSO, TEACHES_ONLY, Candidate, Objective, Params
from advisor.engine.scheduling.sampler.advisor_sampler import AdvisorSampler, CandidatesExhausted

__all__ = ["ALSO", "TEACHES_ONLY", "AdvisorSampler", "Candidate", "CandidatesExhausted", "Objective", "Params"]
