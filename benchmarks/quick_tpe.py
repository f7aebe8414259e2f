"""Makes Optuna's tree-structured Parzen estimator faster, with the same suggestions: trials are split once.

``TPESampler`` splits all trials into good and bad ones again for each parameter of a suggestion, although no result
comes in between. With several objectives this takes half of its time.
"""

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch


@contextlib.contextmanager
def splits_remembered() -> Iterator[None]:
    """Keep the last split of trials, and return it again for the same trials."""
    from optuna.samplers._tpe import sampler

    split = sampler._split_trials
    last: list[Any] = [None, None]

    def remembered(study: Any, trials: list[Any], n_below: int) -> Any:
        key = (id(study), n_below, [(trial.number, trial.state) for trial in trials])
        if key != last[0]:
            last[:] = key, split(study, trials, n_below)
        return last[1]

    with patch.object(sampler, "_split_trials", remembered):
        yield
