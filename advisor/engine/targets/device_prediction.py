"""What artefacts would do on a device that is not at hand: predicted, without running anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from advisor.core.budget_probability import with_budget_probability
from advisor.core.evaluation import Evaluation, Status
from advisor.core.figures import artefact_of
from advisor.core.forms import form_of
from advisor.core.latency_distribution import CONFIDENCE, LatencyDistribution
from advisor.devices.prediction.cached import device_predictor
from advisor.devices.profiles import DeviceProfile, DeviceTarget
from advisor.engine.targets.compatibility import TargetDevice, memory_of, misfit, unfit
from advisor.store.hashing import sha256_json

if TYPE_CHECKING:
    from advisor.catalog.cards import Card
    from advisor.devices.latency.features import FeatureTable, ModelFeatures
    from advisor.devices.prediction.predictor import Predictor
    from advisor.devices.prediction.values import Prediction

LEVEL = 0.8
"""Confidence of the interval that is shown."""

LEAVES_BELOW = 0.05
"""Chance to meet the latency budget below which a candidate leaves before it is trained."""


@dataclass(frozen=True)
class DevicePredictor:
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
    def load(cls) -> DevicePredictor:
        """Take the stored predictor, or fit it (seconds)."""
        from advisor.devices.latency.features import load_features
        from advisor.devices.profiles.paths import shipped_profiles

        return cls(device_predictor(), load_features(shipped_profiles()))

    def environment(self, profile: DeviceProfile, target: DeviceTarget) -> str:
        """Return the hash of everything that the predictions for a target rest on."""
        return sha256_json([profile.fingerprint(), target.name, self.predictor.data_hash])

    def evaluate(
        self,
        evaluations: Sequence[Evaluation],
        place: TargetDevice,
        budget_ms: float | None,
        confidence: float = CONFIDENCE,
    ) -> tuple[Evaluation, ...]:
        """Return one evaluation an artefact on the device; what cannot be said is ``skipped`` with its reason."""
        moved = [_moved(evaluation, place) for evaluation in one_per_artefact(evaluations)]
        found = self._predictions(place, [self._model(evaluation) for evaluation in moved])
        return tuple(
            self._evaluated(evaluation, prediction, place, budget_ms, confidence)
            for evaluation, prediction in zip(moved, found, strict=True)
        )

    def of_cards(self, cards: Sequence[Card], recipe: str, place: TargetDevice) -> list[Prediction | str]:
        """Return what to expect of cards in a recipe's form before there is a file, or why nothing is known."""
        form = form_of(recipe).name
        reason = unfit(form, place)
        models = [
            None
            if reason or not card.macs or not card.params
            else self.table.features(card.name, card.family, card.macs, card.params, card.input_size)
            for card in cards
        ]
        found = self._predictions(place, [(form, model) for model in models])
        return [reason if reason else prediction for prediction in found]

    def _evaluated(
        self,
        evaluation: Evaluation,
        prediction: Prediction | str,
        place: TargetDevice,
        budget_ms: float | None,
        confidence: float,
    ) -> Evaluation:
        reason = misfit(evaluation, place) or (prediction if isinstance(prediction, str) else "")
        if reason or isinstance(prediction, str):
            return _skipped(evaluation, reason)
        predicted = replace(
            evaluation,
            latency=prediction.latency,
            memory=memory_of(evaluation, place),
            latency_distribution=LatencyDistribution.sample(prediction.quantile),
        )
        return with_budget_probability(predicted, budget_ms, confidence)

    def _predictions(
        self, place: TargetDevice, models: Sequence[tuple[str, ModelFeatures | None]]
    ) -> list[Prediction | str]:
        """Return a prediction, or why there is none, for each (form, model)."""
        from advisor.core.errors import UsageError

        where = (place.profile.fingerprint(), place.target.name)
        reasons: dict[str, str] = {}
        for form in dict.fromkeys(form for form, _ in models):
            wanted = dict.fromkeys(model for each, model in models if each == form and model is not None)
            missing = [model for model in wanted if (*where, form, model) not in self.made]
            try:
                rows = self.predictor.predict(place.profile, place.target, form, missing, LEVEL)
            except UsageError as error:
                reasons[form] = error.message
                continue
            self.made.update({(*where, form, model): row for model, row in zip(missing, rows, strict=True)})
        return [
            "its MACs and parameters are not known: nothing to predict from"
            if model is None
            else reasons.get(form) or self.made[*where, form, model]
            for form, model in models
        ]

    def _model(self, evaluation: Evaluation) -> tuple[str, ModelFeatures | None]:
        """Return form and features of an artefact: read from its file where that was done, else from its card."""
        from advisor.devices.latency.from_file import model_features

        configuration, card, file = evaluation.configuration, evaluation.card_facts, evaluation.file_features
        if file is not None:
            return file.form, model_features(file, configuration.card, evaluation.family, self.table)
        form = form_of(configuration.compression).name
        if not card.macs or not card.params or not card.input_size:
            return form, None
        return form, self.table.features(
            configuration.card, evaluation.family, float(card.macs), float(card.params), card.input_size
        )


def one_per_artefact(evaluations: Sequence[Evaluation]) -> tuple[Evaluation, ...]:
    """Return one evaluation that is ok of each artefact: its threads say nothing about another device."""
    found: dict[tuple[str, str, str], Evaluation] = {}
    for evaluation in evaluations:
        if evaluation.status is Status.OK:
            found.setdefault(artefact_of(evaluation), evaluation)
    return tuple(found.values())


def _moved(evaluation: Evaluation, place: TargetDevice) -> Evaluation:
    """Return what stays of an evaluation on another device: accuracy, size and the artefact."""
    return replace(
        evaluation,
        configuration=replace(evaluation.configuration, target=place.identity),
        latency=None,
        latency_p90=None,
        memory=None,
        contended=False,
        timing=None,
        remote=None,
        latency_distribution=None,
        budget_probability=None,
        device_figures={},
        required_figures=None,
    )


def _skipped(evaluation: Evaluation, reason: str) -> Evaluation:
    return replace(evaluation, status=Status.SKIPPED, stage="predict", reason=reason)
