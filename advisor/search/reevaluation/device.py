"""What a run's artefacts would do on a device: predicted, without running anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from advisor.core.evaluation import Evaluation, Status
from advisor.core.quantity import Provenance, Quantity
from advisor.core.units import show_bytes
from advisor.devices.profiles import DeviceProfile, DeviceTarget
from advisor.search.expected import RUNS_AS, device_predictor
from advisor.store.hashing import sha256_json

if TYPE_CHECKING:
    from advisor.devices.latency.features import FeatureTable, ModelFeatures
    from advisor.devices.prediction import Prediction, Predictor

LEVEL = 0.8
"""Confidence of the interval: 9 of 10 latencies are below its upper end, which the budget is held against."""

ACCEPTS: Mapping[str, tuple[str, ...]] = {"float16": ("float16", "float32"), "int8": ("int8",)}
"""Forms of artefact that a target must take one of for a recipe; others need ``float32``."""


@dataclass(frozen=True)
class Forecaster:
    """Predictions for every device; made once, used for every run.

    Attributes:
        predictor: fitted on the measurements of the shipped profiles and the team's own.
        table: features of architectures.
        made: predictions so far by profile, target, form and model: runs share their cards.
    """

    predictor: Predictor
    table: FeatureTable
    made: dict[tuple[str, str, str, ModelFeatures], Prediction] = field(default_factory=dict, repr=False)

    @classmethod
    def load(cls) -> Forecaster:
        """Take the stored predictor, or fit it (seconds)."""
        from advisor.devices.latency.features import load_features
        from advisor.devices.paths import shipped_profiles

        return cls(device_predictor(), load_features(shipped_profiles()))

    def environment(self, profile: DeviceProfile, target: DeviceTarget) -> str:
        """Return the hash of everything that the predictions for a target rest on."""
        return sha256_json([profile.fingerprint(), target.name, self.predictor.data_hash])

    def evaluate(
        self, evaluations: Sequence[Evaluation], profile: DeviceProfile, target: DeviceTarget, budget_ms: float | None
    ) -> tuple[Evaluation, ...]:
        """Return one evaluation an artefact on the device; what cannot be said is ``skipped`` with its reason."""
        artefacts = one_per_artefact(evaluations)
        found: list[Evaluation] = []
        for recipe in dict.fromkeys(e.configuration.compression for e in artefacts):
            own = [_moved(e, profile, target) for e in artefacts if e.configuration.compression == recipe]
            reason = _unfit(recipe, profile, target)
            found += [_skipped(e, reason) for e in own] if reason else self._predicted(own, profile, target, budget_ms)
        return tuple(found)

    def _predicted(
        self, own: Sequence[Evaluation], profile: DeviceProfile, target: DeviceTarget, budget_ms: float | None
    ) -> list[Evaluation]:
        models = [self._features(evaluation) for evaluation in own]
        found = self._predictions(profile, target, RUNS_AS[own[0].configuration.compression], models)
        return [
            _skipped(evaluation, "its MACs and parameters are not known: nothing to predict from")
            if model is None
            else _with_prediction(evaluation, found[model], profile, budget_ms)
            for evaluation, model in zip(own, models, strict=True)
        ]

    def _predictions(
        self, profile: DeviceProfile, target: DeviceTarget, form: str, models: Sequence[ModelFeatures | None]
    ) -> dict[ModelFeatures, Prediction]:
        wanted = dict.fromkeys(model for model in models if model is not None)
        place = (profile.fingerprint(), target.name, form)
        missing = [model for model in wanted if (*place, model) not in self.made]
        for model, prediction in zip(
            missing, self.predictor.predict(profile, target, form, missing, LEVEL), strict=True
        ):
            self.made[*place, model] = prediction
        return {model: self.made[*place, model] for model in wanted}

    def _features(self, evaluation: Evaluation) -> ModelFeatures | None:
        details, card = evaluation.details, evaluation.configuration.card
        macs, params, size = (details.get(name) for name in ("macs", "params", "input_size"))
        if not macs or not params or not size:
            return None
        return self.table.features(card, evaluation.family, float(macs), float(params), int(size))


def one_per_artefact(evaluations: Sequence[Evaluation]) -> tuple[Evaluation, ...]:
    """Return one evaluation that is ok of each artefact: its threads say nothing about another device."""
    found: dict[tuple[str, str, str], Evaluation] = {}
    for evaluation in evaluations:
        configuration = evaluation.configuration
        if evaluation.status is Status.OK:
            found.setdefault((configuration.card, configuration.training, configuration.compression), evaluation)
    return tuple(found.values())


def _unfit(recipe: str, profile: DeviceProfile, target: DeviceTarget) -> str:
    if recipe not in RUNS_AS:
        return f"no measurement tells what {recipe} takes on another device"
    accepted = ACCEPTS.get(recipe, ("float32",))
    if not set(accepted) & set(target.precisions):
        return f"{profile.name}:{target.name} takes {', '.join(target.precisions)}, not {recipe}"
    return ""


def _moved(evaluation: Evaluation, profile: DeviceProfile, target: DeviceTarget) -> Evaluation:
    """Return what stays of an evaluation on another device: accuracy, size and the artefact."""
    kept = ("answers", "per_class_recall", "confusion", "params", "macs", "licence", "input_size", "preprocessing")
    names = [*kept, "weights", "agreement", "agreement_pictures", "download_bytes", "download_zstd_bytes"]
    return replace(
        evaluation,
        configuration=replace(evaluation.configuration, target=target.of(profile.name)),
        latency=None,
        latency_p90=None,
        memory=None,
        contended=False,
        details={name: evaluation.details[name] for name in names if name in evaluation.details},
    )


def _skipped(evaluation: Evaluation, reason: str) -> Evaluation:
    return replace(evaluation, status=Status.SKIPPED, stage="predict", reason=reason)


def _with_prediction(
    evaluation: Evaluation, prediction: Prediction, profile: DeviceProfile, budget_ms: float | None
) -> Evaluation:
    room = profile.limits.flash_bytes or profile.limits.package_bytes
    if room is not None and evaluation.size is not None and evaluation.size.value > room:
        return _skipped(evaluation, f"its {show_bytes(evaluation.size.value)} do not fit into {show_bytes(room)}")
    latency = prediction.latency
    high = latency.value if latency.high is None else latency.high
    p90 = Quantity(high, "ms", latency.provenance, source=f"upper end of the {100 * LEVEL:.0f} % interval")
    details = dict(evaluation.details)
    if budget_ms is not None and latency.provenance is Provenance.PREDICTED:
        details["budget_probability"] = round(prediction.probability(budget_ms), 3)
    return replace(evaluation, latency=latency, latency_p90=p90, details=details)
