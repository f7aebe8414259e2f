"""Say which measurements in a team's own profile are doubtful, and why.

``advisor plan`` prints these sentences before a search. They compare the measurements with
each other, and with what the other devices make likely.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from statistics import median

from advisor.core import show_ms
from advisor.devices._latency.features import load_features
from advisor.devices._latency.table import MAJOR, LatencyTable, count_releases, runtime_family
from advisor.devices._prediction import Predictor, fit_predictor
from advisor.devices._profiles import (
    DeviceProfile,
    DeviceTarget,
    Profiles,
    find_shipped_profiles,
)
from advisor.devices._profiles.storing import load_known_devices

_UNLIKELY = 0.05
_DOUBTED_FACTOR = 2.0
"""Measurements are doubted if something as extreme has at most this probability before them, and
if they are apart from what was expected by this factor at least.
"""


def describe_doubts(profile: DeviceProfile, target: DeviceTarget) -> tuple[str, ...]:
    """Return a sentence for each doubt about the latencies on a target;
    none for a shipped profile.

    Measurements under load contradict each other, or all take longer than the processor should. So
    do those of another build. Nothing tells how a release differs if none near it was measured.
    """
    if (
        profile.origin is None
        or profile.predicted_from
        or profile.origin.parent == find_shipped_profiles()
    ):
        return ()
    rows: dict[str, dict[str, float]] = {}
    for row in profile.measurements_on(target):
        rows.setdefault(row.precision, {})[row.model] = row.latency_ms
    others = [other for name, other in load_known_devices().items() if name != profile.name]
    # With the device itself in the fit, its own measurements would be what is expected of it.
    predictor = fit_predictor(Profiles(others))
    doubts = list(_doubt_release(predictor.table, profile, target))
    for form, latencies in rows.items():
        doubts += _doubt_form(predictor, profile, target, form, latencies)
    return tuple(doubts)


def _doubt_release(
    table: LatencyTable, profile: DeviceProfile, target: DeviceTarget
) -> Iterator[str]:
    """Yield that no release near a CPU target's was measured, if so."""
    steps = {}
    for column in table.columns:
        same = column.kind == "cpu" and runtime_family(column.runtime) == runtime_family(
            target.runtime
        )
        if same and column.version:
            steps[column.version] = count_releases(column.version, target.version)
    nearest_release = min(steps, key=lambda version: steps[version], default="")
    if target.accelerator != "cpu" or not target.version or steps.get(nearest_release, 0) < MAJOR:
        return
    yield (
        f"{profile.name}: no release near {target.version} of {target.runtime} was measured (the"
        f" nearest is {nearest_release}), so nothing tells how it differs"
    )


def _doubt_form(
    predictor: Predictor,
    profile: DeviceProfile,
    target: DeviceTarget,
    form: str,
    latencies: Mapping[str, float],
) -> Iterator[str]:
    """Yield the doubts about the latencies (ms by model) of one form."""
    contradicting = predictor.contradicting(profile, target, form)
    for model, expected_ms in contradicting.items():
        yield (
            f"{profile.name}: {model} {form} took {show_ms(latencies[model])} on {target.name},"
            f" and the other measurements there make about {show_ms(expected_ms)} likely, so it"
            " hardly counts: measure it again"
        )
    known = load_features().models
    models = []
    for model in latencies:
        if model in known and model not in contradicting:
            models.append(known[model])
    if not models:
        return
    unmeasured = replace(profile, measurements=())
    ratios = []
    chances = []
    for network, prediction in zip(
        models, predictor.predict(unmeasured, target, form, models), strict=True
    ):
        ratios.append(latencies[network.name] / prediction.latency.value)
        chances.append(prediction.probability(latencies[network.name]))
    ratio = median(ratios)
    chance = median(chances)
    if min(chance, 1 - chance) > _UNLIKELY or max(ratio, 1 / ratio) < _DOUBTED_FACTOR:
        return
    causes = "was the device busy or hot, or does another build run there?"
    if ratio < 1:
        causes = "does another build or another number of threads run there?"
    yield (
        f"{profile.name}: what was measured of {form} on {target.name} is {ratio:.2g} times what"
        f" its processor makes likely: {causes}"
    )
