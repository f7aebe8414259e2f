"""The statistics behind predictions: kernels, the additive model, resemblance, anchors, intervals."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

from advisor.core import Traits, UsageError
from advisor.devices import ModelFeatures, Profiles, load_features, target_vector
from advisor.devices._latency.base import Base, fit_base
from advisor.devices._latency.calibration import (
    CALIBRATION_FILE,
    EVERYTHING,
    LEAST,
    SUPPORT,
    read_calibration,
    regime_of,
)
from advisor.devices._latency.contrasts import COUNTS, Contrasts
from advisor.devices._latency.features import list_unmeasured, traits_of_operators
from advisor.devices._latency.model import (
    choose_decisive,
    choose_models,
    estimate_latencies,
    queries_of,
    queries_of_known,
)
from advisor.devices._latency.model_space import ModelSpace
from advisor.devices._latency.posterior import posterior_of
from advisor.devices._latency.table import Column, LatencyTable, find_likeness, silicon_of
from benchmarks.latency_protocols.regimes import Scored, by_regime, calibrate, calibration_of
from benchmarks.latency_protocols.validation import cross_validate, hide, subset
from tests.builders import must_fail, present
from tests.tables import with_cases

CPU = Column("d", "t", "float32", "ncnn", "", "cpu", "s")
KEYS = [regime_of(CPU, "same", measured, support) for measured in (0, 5) for support in SUPPORT]
errors_of_regimes = st.dictionaries(
    st.sampled_from(KEYS),
    st.lists(st.builds(Scored, st.floats(-5, 5), st.sampled_from("ab"), st.just("ncnn")), min_size=1, max_size=80),
    min_size=1,
).filter(lambda errors: any("/0-" in key for key in errors))


def made_table(targets: int = 12, models: int = 24, seed: int = 0, *, noise: float = 0.01) -> LatencyTable:
    """Targets that differ by speed and by how much a model's MACs weigh; a few cells missing."""
    random = np.random.default_rng(seed)
    features = np.column_stack(
        [random.normal(20, 1.5, models), random.normal(15, 1, models), *random.normal(size=(8, models))]
    )
    slopes = random.uniform(0.6, 1.0, targets)
    levels = random.normal(0, 1, targets)
    own = random.normal(0, 0.3, models)
    values = (
        levels[:, None] + slopes[:, None] * (features[:, 0] - 20) + own + random.normal(0, noise, (targets, models))
    )
    values[random.uniform(size=values.shape) < 0.1] = np.nan
    columns = tuple(
        Column(f"d{i}", "cpu", "float32", "tflite", "", "cpu", f"s{i}", tuple(random.normal(size=5)))
        for i in range(targets)
    )
    return LatencyTable(
        tuple(f"m{i}" for i in range(models)), tuple(f"f{i // 3}" for i in range(models)), features, columns, values
    )


@pytest.fixture(scope="module")
def made() -> LatencyTable:
    return made_table()


@pytest.fixture(scope="module")
def base(made: LatencyTable) -> Base:
    return fit_base(made)


@given(arrays(float, (9, 10), elements=st.floats(-30, 30)), st.lists(st.sampled_from("abc"), min_size=9, max_size=9))
def test_the_kernel_is_a_covariance(features: np.ndarray, families: list[str]) -> None:
    gram = ModelSpace(features, families).within()
    assert np.allclose(gram, gram.T)
    assert np.linalg.eigvalsh(gram).min() > -1e-6 * max(1.0, np.abs(gram).max())


def test_the_base_keeps_what_was_measured_and_a_copy_of_a_target_resembles_it(made: LatencyTable, base: Base) -> None:
    measured = ~np.isnan(made.values)
    assert np.array_equal(base.filled[measured], made.values[measured])
    assert np.isfinite(base.filled).all()
    complete = made_table(noise=0.0)
    truth = complete.values[measured]
    assert np.median(np.abs(base.smooth[measured] - truth)) < 0.05
    posterior = posterior_of(base, made.columns[4], np.arange(8), base.filled[4, :8] + 1.5)
    assert posterior.shares.sum() == pytest.approx(1)
    assert int(np.argmax(posterior.shares)) == 4
    predicted = estimate_latencies(posterior, queries_of_known(base, np.arange(8, 24))).mean
    assert np.abs(predicted - base.filled[4, 8:] - 1.5).max() < 0.1


def test_a_hidden_target_is_predicted_from_five_models(made: LatencyTable) -> None:
    errors = []
    for index in range(len(made.columns)):
        shown, _ = hide(made, [index])
        fitted = fit_base(shown)
        measured = np.flatnonzero(~np.isnan(made.values[index]))
        seen, hidden = measured[:5], measured[5:]
        posterior = posterior_of(fitted, made.columns[index], seen, made.values[index, seen])
        errors.extend(estimate_latencies(posterior, queries_of_known(fitted, hidden)).mean - made.values[index, hidden])
    assert np.median(np.abs(errors)) < 0.05


def test_a_model_far_outside_says_so_and_a_small_one_may_only_be_faster(made: LatencyTable, base: Base) -> None:
    posterior = posterior_of(base, made.columns[0], np.arange(10), base.filled[0, :10], excluded=[0])
    assert posterior.shares[0] == 0
    models = [ModelFeatures("new", "other", np.exp(size), 3e6, 224, 80, Traits()) for size in (20, 30, 9)]
    found = estimate_latencies(posterior, queries_of(base, models))
    assert found.outside[0] == 0
    assert found.outside[1:].min() > 1
    assert found.deviation[1] > 2 * found.deviation[0]
    assert found.above[1] > 2 * found.above[0]
    assert found.deviation[2] > 1.5 * found.above[2]


def test_support_tells_known_models_from_their_family_and_from_strangers(made: LatencyTable, base: Base) -> None:
    posterior = posterior_of(base, made.columns[0], np.arange(10), base.filled[0, :10], excluded=[0])
    vector = {"macs": 5e8, "params": 3e6, "input_size": 224, "layers": 80.0}
    models = [ModelFeatures(n, f, **vector) for n, f in (("m3", "f1"), ("m3b", "f1"), ("new", "other"))]
    found = estimate_latencies(posterior, queries_of(base, models))
    assert [SUPPORT[code] for code in found.support] == ["model", "family", "none"]


def test_anchors_are_candidates_and_a_dear_one_gives_way_to_a_cheap_one(made: LatencyTable, base: Base) -> None:
    chosen = choose_models(base, made.columns[0], range(4, 20), 5)
    assert len(set(chosen) & set(range(4, 20))) == 5
    assert set(choose_models(base, made.columns[0], [1, 2], 5)) == {1, 2}
    first = choose_models(base, made.columns[0], range(24), 1)[0]
    assert choose_models(base, made.columns[0], range(24), 1, {first: 1000.0})[0] != first


def test_cross_validation_never_predicts_what_it_has_seen(made: LatencyTable) -> None:
    for result in cross_validate(made, folds=3, anchors=(0, 2)):
        index = made.columns.index(result.column)
        assert np.array_equal(result.truth, made.values[index, result.models])
        assert result.anchors + len(result.models) <= (~np.isnan(made.values[index])).sum()


def test_intervals_hold_what_they_promise_on_other_data() -> None:
    calibration = calibrate(made_table(16, 24, seed=1), folds=3)
    inside: list[bool] = []
    for regime, errors in by_regime(cross_validate(made_table(16, 24, seed=2), folds=3)).items():
        low, high = calibration.bounds(regime, 0.8)
        inside += [low <= each.value <= high for each in errors]
    assert 0.7 < np.mean(inside) < 0.9


@given(errors_of_regimes, st.floats(0.05, 0.95))
def test_bounds_are_ordered_and_widen_with_the_level(errors: dict[str, list[Scored]], level: float) -> None:
    calibration = calibration_of("hash", errors)
    for key in [*KEYS, regime_of(replace(CPU, kind="npu"), "core", 3, "none")]:
        low, high = calibration.bounds(key, level)
        wide_low, wide_high = calibration.bounds(key, min(level + 0.04, 0.99))
        assert wide_low <= low <= high <= wide_high


def scored(values: Sequence[float], target: str = "t", source: str = "ncnn") -> list[Scored]:
    return [Scored(value, target, source) for value in values]


def test_a_regime_with_few_errors_is_wide() -> None:
    few, enough, none = (regime_of(CPU, "same", measured, "model") for measured in (2, 5, 0))
    errors = {few: scored([0.0] * (LEAST - 1)), enough: scored([0.0] * LEAST), none: scored(np.linspace(-3, 3, LEAST))}
    calibration = calibration_of("hash", errors)
    assert calibration.is_wide(few)
    assert not calibration.is_wide(enough)
    assert calibration.bounds(few, 0.8) == pytest.approx(calibration.bounds(none, 0.8), abs=0.1)
    assert calibration.bounds(few, 0.8)[1] > calibration.bounds(enough, 0.8)[1]


def test_a_budget_far_beyond_all_known_errors_is_met_more_surely() -> None:
    key = regime_of(CPU, "same", 0, "model")
    calibration = calibration_of("hash", {key: [*scored(np.linspace(-2, 2, 60)), *scored(np.linspace(-2, 2, 60))]})
    at_end, far, further = (calibration.below(key, error) for error in (2.0, 6.0, 40.0))
    assert at_end < 0.8 < far < further < 1
    assert further > 0.999
    assert calibration.below(key, -40.0) < 0.001
    assert calibration.quantile(key, far) == pytest.approx(6.0)
    assert calibration.quantile(key, 1 - far) == pytest.approx(-6.0)


def test_an_unknown_source_is_judged_by_sources_not_by_their_rows() -> None:
    key = regime_of(CPU, "runtime", 0, "model")
    errors = [*scored([0.0] * 300, "t1", "ncnn"), *scored([2.0] * 30, "t2", "tflite")]
    assert calibration_of("hash", {key: errors}).quantile(key, 0.7) == pytest.approx(2.0, abs=0.1)
    same = regime_of(CPU, "same", 0, "model")
    assert calibration_of("hash", {same: errors}).quantile(same, 0.7) == 0


def test_a_regime_of_one_machine_borrows_the_errors_of_others() -> None:
    one, many = (regime_of(CPU, reference, 0, "model") for reference in ("release", "same"))
    machines = [Scored(value, str(value), "ncnn", str(value)) for value in np.linspace(-1, 1, 40)]
    _, high = calibration_of("hash", {one: scored([0.1] * LEAST), many: machines}).bounds(one, 0.8)
    assert 0.5 < high < 1.5


@with_cases
def test_the_reference_is_the_worst_of_what_is_missing(changes: dict[str, str], missing: str) -> None:
    known = Column("d1", "x", "float32", "tflite", "2.17.0", "cpu", "s1", core="Cortex-A72")
    assert find_likeness(replace(known, **changes), [known]) == missing  # type: ignore[arg-type]


def test_another_build_is_another_runtime_and_an_unstated_one_may_be_any() -> None:
    ruy = Column("d1", "x", "float32", "tflite", "2.7.1", "cpu", "s1", kernels="ruy")
    assert find_likeness(replace(ruy, kernels="xnnpack"), [ruy]) == "runtime"
    assert find_likeness(replace(ruy, kernels=""), [ruy]) == "same"
    # A build on x86 is another one than on Arm, and 8-bit integers have errors of their own.
    zen = replace(ruy, core="Zen 3")
    assert find_likeness(zen, [replace(ruy, core="Cortex-A72"), replace(zen, kernels="xnnpack")]) == "runtime"
    assert regime_of(ruy, "same", 0, "none") != regime_of(replace(ruy, precision="int8"), "same", 0, "none")


def test_four_measured_models_replace_what_is_not_known_of_the_release() -> None:
    assert regime_of(CPU, "version", 3, "model") == "cpu/version/1-model"
    assert regime_of(CPU, "version", 4, "model") == "cpu/same/2-model"
    assert regime_of(CPU, "core", 4, "model") == "cpu/core/2-model"


def test_a_reference_that_measured_the_same_models_counts_more(made: LatencyTable) -> None:
    """Two copies of a target fit it equally well; one of them is known by three models only."""
    known = np.flatnonzero(~np.isnan(made.values[0]))
    values = np.vstack([made.values, made.values[0], made.values[0]])
    values[-1, known[3:]] = np.nan
    copies = tuple(replace(made.columns[0], device=f"copy{i}", silicon=f"copy{i}") for i in range(2))
    table = replace(made, columns=(*made.columns, *copies), values=values)
    seen = known[4:10]
    unplaced = replace(made.columns[0], speed=())  # Without a place, which is one more reference
    shares = posterior_of(fit_base(table), unplaced, seen, made.values[0, seen], excluded=[0]).shares
    assert shares[-2] > 0.5
    assert shares[-1] < 0.1 * shares[-2]


@pytest.fixture(scope="module")
def shipped_npus(table: LatencyTable) -> LatencyTable:
    return subset(table, np.flatnonzero([column.kind == "npu" for column in table.columns]))


def index_of_the_galaxy(table: LatencyTable) -> int:
    return [(c.device, c.runtime, c.precision) for c in table.columns].index(("galaxy-s24", "tflite", "float32"))


def test_an_accelerator_outside_the_known_generations_is_beyond_them(shipped_npus: LatencyTable) -> None:
    column = shipped_npus.columns[index_of_the_galaxy(shipped_npus)]
    none, base = np.array([], dtype=np.intp), fit_base(shipped_npus)
    excluded = [i for i, c in enumerate(shipped_npus.columns) if c.silicon == column.silicon]
    strangers = [replace(column, silicon="new", speed=(generation,)) for generation in (66.0, 75.0, 85.0)]
    posteriors = [posterior_of(base, stranger, none, np.zeros(0), excluded=excluded) for stranger in strangers]
    assert [posterior.beyond for posterior in posteriors] == [True, False, True]


def test_an_npu_that_nobody_measured_is_placed_by_its_generation(shipped_npus: LatencyTable) -> None:
    index = index_of_the_galaxy(shipped_npus)
    column = shipped_npus.columns[index]
    shown, _ = hide(shipped_npus, [i for i, c in enumerate(shipped_npus.columns) if c.silicon == column.silicon])
    measured = np.flatnonzero(~np.isnan(shipped_npus.values[index]))
    base = fit_base(shown)

    def error(of: Column) -> float:
        posterior = posterior_of(base, of, np.array([], dtype=np.intp), np.zeros(0))
        found = estimate_latencies(posterior, queries_of_known(base, measured))
        return float(np.median(np.abs(np.expm1(found.mean - shipped_npus.values[index, measured]))))

    assert error(column) < error(replace(column, speed=()))


def test_a_calibration_reads_back(tmp_path: Path) -> None:
    calibration = calibration_of("hash", {regime_of(CPU, "same", 0, "model"): scored([0.0, 1.0])})
    (tmp_path / CALIBRATION_FILE).write_text(json.dumps(asdict(calibration)))
    assert read_calibration(tmp_path) == calibration
    assert set(calibration.quantiles) == {EVERYTHING}


@pytest.mark.parametrize("content", ["", "[]", "{}", "nonsense", None])
def test_a_damaged_or_missing_calibration_is_refused(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / CALIBRATION_FILE).write_text(content)
    must_fail(UsageError, CALIBRATION_FILE, read_calibration, tmp_path)


def test_silicon_of_one_design_is_one_and_more_threads_and_faster_cores_mean_a_higher_rate(profiles: Profiles) -> None:
    assert silicon_of(profiles["rk3588"]) == silicon_of(profiles["orange-pi-5"])
    assert len({silicon_of(profiles[name]) for name in ("snapdragon-855", "snapdragon-855-plus", "pixel-4")}) == 1
    assert silicon_of(profiles["snapdragon-865"]) != silicon_of(profiles["snapdragon-855"])

    def rate(selector: str) -> float:
        return present(target_vector(*profiles.select(selector), "float32"))[0]

    assert rate("raspberry-pi-4:ncnn-cpu-x4") == pytest.approx(rate("raspberry-pi-4:ncnn-cpu-x1") + np.log(4))
    assert rate("raspberry-pi-5:ncnn-cpu-x4") > rate("raspberry-pi-4:ncnn-cpu-x4") > rate("raspberry-pi-3:ncnn-cpu-x4")


@with_cases
def test_the_model_that_raises_the_pick_is_measured(chances: list[float], measured: list[bool], chosen: int) -> None:
    accuracy, distance = np.array([60.0, 68.0, 70.0]), np.array([0.1, 0.4, 0.3])
    assert choose_decisive(np.array(chances), accuracy, distance, np.array(measured)) == chosen


def npus(targets: int = 12, models: int = 24) -> LatencyTable:
    """NPUs that launch equally fast and compute at speeds of their own: small models lose less on a slow one."""
    random = np.random.default_rng(0)
    features = np.column_stack([random.uniform(17, 23, models), random.uniform(14, 18, models), *np.ones((8, models))])
    rates = np.exp(random.normal(21, 0.7, targets))
    values = np.log(0.5 + np.exp(features[:, 0])[None] / rates[:, None])
    columns = tuple(Column(f"d{i}", "npu", "float32", "tflite", "", "npu", f"s{i}") for i in range(targets))
    names = tuple(f"m{i}" for i in range(models))
    return LatencyTable(names, names, features, columns, values)


def test_what_a_launch_takes_is_learnt_from_five_models() -> None:
    made = npus()
    slowest = int(np.argmax(made.values.sum(axis=1)))
    base = fit_base(hide(made, [slowest])[0])
    seen = np.sort(choose_models(base, made.columns[slowest], range(24), 5))
    rest = np.setdiff1d(np.arange(24), seen)
    posterior = posterior_of(base, made.columns[slowest], seen, made.values[slowest, seen])
    errors = estimate_latencies(posterior, queries_of_known(base, rest)).mean - made.values[slowest, rest]
    assert np.median(np.abs(np.expm1(errors))) < 0.05


def test_directions_are_none_where_too_few_targets_are_known(made: LatencyTable) -> None:
    base = fit_base(subset(made, np.arange(2)))
    contrasts = Contrasts.of(base, made.columns[0], np.arange(2))
    assert contrasts.coordinates(base.filled.T, made.features[:, :COUNTS]).shape == (24, 0)


def test_traits_follow_from_the_operators() -> None:
    mobile = traits_of_operators({"CONV_2D": 34, "DEPTHWISE_CONV_2D": 17, "ADD": 10})
    assert mobile.depthwise == 1
    assert mobile.attention == mobile.branches == 0
    assert traits_of_operators({"CONV_2D": 4, "BATCH_MATMUL": 24}).attention == 1
    assert traits_of_operators({}).values == (0, 0, 0, 0, 0, 0)
    assert list_unmeasured(["CONV_2D", "ATAN2", "QUANTIZE", "CUSTOM:Nobody"]) == ("ATAN2", "CUSTOM:Nobody")


@pytest.mark.parametrize("field", ["macs", "params", "input_size", "layers"])
@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_impossible_features_are_refused(field: str, value: float) -> None:
    counts = {"macs": 3e8, "params": 3e6, "input_size": 224, "layers": 70.0}
    with pytest.raises(UsageError, match="net"):
        _ = ModelFeatures("net", "family", **{**counts, field: value}).vector


def test_the_features_of_the_shipped_measurements_are_known() -> None:
    features = load_features()
    net = features.models["mobilenet_v2_1.0_224"]
    assert (net.family, net.macs, net.input_size) == ("mobilenet_v2", 300e6, 224)
    assert features.features("densenet_121_224", "densenet", 2.8e9, 8e6, 224).family == "densenet"
    assert features.features("my_own", "mobilenet_v3", 1e8, 1e6, 160).traits.squeeze_excite > 0
    assert features.features("my_own", "nothing known", 1e8, 1e6, 160).traits == Traits()
