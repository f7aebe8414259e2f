"""An Optuna sampler for a table of candidates of which much is known beforehand.

Where a search space is a list (model x recipe x threads) and each entry comes with a prior and with costs that are
known or predicted, a cold sampler is no better than random. This one starts with the entries that look best by what
is known, learns from each result how far the prior can be trusted, and asks next for the entry with the largest
expected gain of hypervolume a second. It needs Optuna and numpy only, and works with any study of two or three
objectives: ``table`` holds the candidates, ``surrogate`` learns, ``acquisition`` chooses, ``ledger`` and ``claims``
keep track of who has what, ``advisor_sampler`` is what Optuna calls.
"""

from advisor.engine.scheduling.sampler.advisor_sampler import AdvisorSampler
from advisor.engine.scheduling.sampler.allocation import CandidatesExhausted
from advisor.engine.scheduling.sampler.table import Candidate, Objective, candidate_key
from advisor.engine.scheduling.sampler.trial_index import ALSO, TEACHES_ONLY

__all__ = ["ALSO", "TEACHES_ONLY", "AdvisorSampler", "Candidate", "CandidatesExhausted", "Objective", "candidate_key"]
