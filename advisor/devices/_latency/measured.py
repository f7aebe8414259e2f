"""Combine the measurements of models on one target into one latency for each model.

The predictor (``_prediction.py``) quotes these latencies instead of predicting the models. It also
learns from them how the target differs from the others. A form without measurements borrows those
of a similar one.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from advisor.core import FORMS, UsageError, nearest
from advisor.devices._latency.posterior import PREDICTION_NOISE
from advisor.devices._latency.releases import estimate_change
from advisor.devices._latency.table import LatencyTable, count_releases
from advisor.devices._profiles.measurement import Measurement
from advisor.devices._profiles.values import DeviceTarget

# The forms that borrow latencies of another one (``like``): see ``core/_form.py``. Recipes that
# only rename a form have none of their own.
_SIMILAR = {name: form for name, form in FORMS.items() if name == form.name != form.like}


class MeasuredLatency(NamedTuple):
    """A measured latency (ms) with its source, its deviation (log),
    and whether another release measured it.
    """

    milliseconds: float
    source: str
    deviation: float
    other_release: bool


def combine_measurements(
    table: LatencyTable, target: DeviceTarget, rows: Sequence[Measurement]
) -> MeasuredLatency:
    """Return the latency of one model from its measurements on a target: their geometric mean.

    If another release of the runtime measured it,
    the deviation grows with the distance of the releases.
    """
    # Errors of timings are factors, so their mean is geometric.
    milliseconds = float(np.exp(np.mean([np.log(row.latency_ms) for row in rows])))
    versions = []
    if target.version:
        versions = [row.runtime_version for row in rows if row.runtime_version]
    steps = [count_releases(version, target.version) for version in versions]
    # Without a stated version, a row is taken as one of the target's release:
    # nothing tells otherwise.
    furthest = max(steps, default=0)
    deviation = float(np.hypot(PREDICTION_NOISE, estimate_change(table, target.runtime, furthest)))
    return MeasuredLatency(milliseconds, rows[0].source_repo, deviation, furthest > 0)


def combine_by_model(
    table: LatencyTable, target: DeviceTarget, rows: Sequence[Measurement]
) -> dict[int, MeasuredLatency]:
    """Return the latency of each measured model on a target, by its index in the table."""
    rows_of_model: dict[str, list[Measurement]] = defaultdict(list)
    for row in rows:
        rows_of_model[row.model].append(row)
    measured = {}
    for index, name in enumerate(table.models):
        if name in rows_of_model:
            measured[index] = combine_measurements(table, target, rows_of_model[name])
    return measured


def similar_form(
    form: str, measured: Collection[str], known: Collection[str]
) -> tuple[str, float]:
    """Return the form whose latencies to use for ``form`` on a target, and the deviation (log)
    that this adds.

    ``measured`` are the forms that were measured on the target itself, ``known`` those on any
    target. UsageError if no latency of the form is known; it names the nearest form.
    """
    precision = form
    log_sd = 0.0
    similar = _SIMILAR.get(form)
    if similar is not None and form not in measured:
        precision = similar.like
        log_sd = similar.log_sd
    if precision not in known:
        forms = sorted(set(known) | set(_SIMILAR))
        raise UsageError(
            f"no latency is known of the form '{form}'{nearest(form, forms)}",
            f"forms: {', '.join(forms)}",
        )
    return precision, log_sd
