"""Predict files and cards on devices that are not measured; nothing runs.

``DevicePredictor`` predicts the latency of a file that was made, or of a form of a card.
``CardPredictor`` asks it about cards before they are trained, and says which need not be. The
hash of ``environment_of`` is kept in manifests: if it differs, a re-evaluation predicts anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.catalog import Card
from advisor.core import (
    CONFIDENCE,
    Configuration,
    Evaluation,
    FileFeatures,
    LatencyDistribution,
    Limits,
    Quantity,
    UsageError,
    form_of,
    show_bytes,
    show_latency,
    show_ms,
    show_probability,
)
from advisor.devices import DeviceProfile, DeviceTarget
from advisor.engine._pipeline.rule import Known
from advisor.engine._targets.compatibility import explain_rejection, form_rejection, memory_of
from advisor.engine._targets.device_rows import move_to_device, one_each, reject_evaluation
from advisor.engine._targets.target_devices import TargetDevice, TargetDevices
from advisor.measurement import host
from advisor.store import sha256_json

if TYPE_CHECKING:
    from advisor.devices import ModelFeatures, Prediction, Predictor

LEAST_SHARE = 0.95
"""Least share of the parameters' bytes that is left
after batch normalisation is folded into the convolutions.
"""

HEAD_FEATURES = 2049
HEAD_SHARE = 0.8
"""Size of the published classifier, which a head of the user's classes replaces: at most 2,048
features and a bias for each class, and at most this share of a network's parameters (ShuffleNetV2
0.5: 75 %).
"""

MIN_BUDGET_PROBABILITY = 0.05
"""A candidate is rejected before training if it meets the latency budget
with less than this probability.
"""


class _LatencyModel:
    """A fitted predictor, and the features of the networks that it knows."""

    def __init__(self, predictor: Predictor | None) -> None:
        from advisor.devices import Predictor, load_features

        self.predictor = predictor or Predictor.load()
        self.table = load_features()


class DevicePredictor:
    """Predicts evaluations on devices, and remembers predictions,
    because the runs of one command share their cards.

    It is fitted to the measurements of the shipped profiles and the team's own ones. This takes
    about half a second, so it waits for the first prediction. To judge predictions, give a
    ``predictor`` that was fitted to other measurements.
    """

    def __init__(self, predictor: Predictor | None = None) -> None:
        self._fitted = predictor
        self._known: dict[tuple[str, str, str, ModelFeatures], Prediction] = {}
        self._files: dict[Path, FileFeatures] = {}

    @cached_property
    def _model(self) -> _LatencyModel:
        return _LatencyModel(self._fitted)

    def environment(self, profile: DeviceProfile, target: DeviceTarget) -> str:
        """Return the hash of the data that predictions for a target depend on:
        its profile and the measurements of all profiles.

        The code and the constants of the predictor are no part of it.
        """
        return sha256_json([profile.fingerprint(), target.name, self._model.predictor.data_hash])

    def evaluate(
        self,
        evaluations: Sequence[Evaluation],
        device: TargetDevice,
        budget_ms: float | None,
        confidence: float = CONFIDENCE,
    ) -> tuple[Evaluation, ...]:
        """Return one evaluation for each artefact on a device;
        ``skipped`` with a reason if it cannot run there.

        ``evaluations`` were made on any device.
        The budget must be met with the probability ``confidence``.
        """
        predicted = []
        for evaluation in one_each(evaluations):
            moved = move_to_device(evaluation, device)
            predicted.append(self._predict_evaluation(moved, device, budget_ms, confidence))
        return tuple(predicted)

    def predict_card(self, card: Card, recipe: str, device: TargetDevice) -> Prediction | str:
        """Return the prediction for a recipe's form of a card, or the reason why there is none."""
        form = form_of(recipe).name
        reason = form_rejection(form, device)
        if reason:
            return reason
        return self._predict_latency(device, form, self._describe_card(card))

    def _predict_evaluation(
        self,
        evaluation: Evaluation,
        device: TargetDevice,
        budget_ms: float | None,
        confidence: float,
    ) -> Evaluation:
        """Return an evaluation with its prediction;
        skipped with the reason if there is none, or none to rely on.
        """
        reason = explain_rejection(evaluation, device)
        if reason:
            return reject_evaluation(evaluation, reason)
        form, features = self._describe_file(evaluation)
        prediction = self._predict_latency(device, form, features)
        if isinstance(prediction, str):
            return reject_evaluation(evaluation, prediction)
        # A network unlike all that were measured: without a connection nothing corrects its
        # prediction, so no budget is judged by it.
        is_uncorrected = prediction.unlike and device.profile.connection is None
        if is_uncorrected and budget_ms is not None:
            return reject_evaluation(evaluation, prediction.unlike)
        predicted = replace(
            evaluation,
            latency=prediction.latency,
            memory=memory_of(evaluation, device),
            latency_distribution=LatencyDistribution.sample(prediction.quantile),
        )
        limits = Limits(latency_ms=budget_ms, confidence=confidence)
        return limits.with_budget_probability(predicted)

    def _predict_latency(
        self, device: TargetDevice, form: str, model: ModelFeatures | None
    ) -> Prediction | str:
        """Return the prediction of a network in a form, or the reason why there is none."""
        if model is None:
            return "its MACs and parameters are not known, so its latency cannot be predicted"
        # The key has the content of the profile, because new measurements do not change its name.
        key = (device.profile.fingerprint(), device.target.name, form, model)
        if key not in self._known:
            try:
                (self._known[key],) = self._model.predictor.predict(
                    device.profile, device.target, form, [model]
                )
            except UsageError as error:
                return error.message
        return self._known[key]

    def _describe_file(self, evaluation: Evaluation) -> tuple[str, ModelFeatures | None]:
        """Return the form and the features of an artefact:
        from its file if it was read, else from its card.
        """
        from advisor.devices import ModelFeatures

        configuration = evaluation.configuration
        card = evaluation.card_facts
        file = evaluation.file_features
        if file is not None:
            features = ModelFeatures.of_file(
                file, configuration.card, evaluation.family, self._model.table
            )
            return file.form, features
        card_features = self._find_features(
            configuration.card, evaluation.family, card.macs, card.params, card.input_size
        )
        return form_of(configuration.compression).name, card_features

    def _describe_card(self, card: Card) -> ModelFeatures | None:
        """Return the features of a card: a user's own file says more than its MACs."""
        from advisor.devices import ModelFeatures

        path = Path(card.weights[0].file.path) if card.own_file else None
        if path is not None and path.is_file():
            file = self._read_features(path)
            return ModelFeatures.of_file(file, card.name, card.family, self._model.table)
        return self._find_features(card.name, card.family, card.macs, card.params, card.input_size)

    def _read_features(self, path: Path) -> FileFeatures:
        """Return the features of a user's own file, which is read once."""
        from advisor.devices import read_features

        if path not in self._files:
            self._files[path] = read_features(path)
        return self._files[path]

    def _find_features(
        self,
        card: str,
        family: str,
        macs: float | None,
        params: float | None,
        input_size: int | None,
    ) -> ModelFeatures | None:
        """Return the features of a card; None if a figure is not known."""
        if not macs or not params or not input_size:
            return None
        return self._model.table.features(card, family, float(macs), float(params), input_size)


def environment_of(device: TargetDevice, predictor: DevicePredictor) -> str:
    """Return the hash of everything that latencies on a device depend on,
    measured here or predicted.
    """
    if device.runtime is None:
        return predictor.environment(device.profile, device.target)
    versions = device.runtime.versions(device.target)
    return sha256_json(
        [device.target.runtime, device.target.version, dict(versions), host.describe().fingerprint]
    )


def least_size(card: Card, recipe: str, *, new_head: bool) -> float:
    """Return the least possible bytes of the file:
    parameters x bytes, without what is folded or replaced.
    """
    params = float(max(card.params, 1))
    if new_head:
        # The bound must never exceed the true size, so as much as possible is taken away.
        params -= min(HEAD_FEATURES * card.classes, HEAD_SHARE * params)
    return LEAST_SHARE * params * form_of(recipe).bytes


def card_rejection(card: Card, recipe: str, device: TargetDevice) -> str:
    """Return why no file of a card can run on a device, whatever its head; empty if one may."""
    reason = form_rejection(form_of(recipe).name, device)
    least = least_size(card, recipe, new_head=True)
    room = device.profile.limits.file_bytes
    if reason or room is None or card.own_file or least <= room:
        return reason
    return (
        f"its file has at least {show_bytes(least)}, {device.label} has room for"
        f" {show_bytes(room)}: not trained"
    )


@dataclass(frozen=True)
class LatencyEstimate:
    """The estimated latency of one configuration,
    and the probability that it meets the latency budget.

    The median in ms is ``measured`` here before, ``predicted``, or ``estimated`` if it is rough;
    None if nothing is known for the devices of the question. The chance is None without a budget,
    if the latency is rough, or if nothing like a device was measured.
    """

    latency: Quantity | None
    chance: float | None


@dataclass(frozen=True)
class CardPredictor:
    """Predicts cards that have no file yet on the devices of a question.

    Runtimes of this machine are measured, so they are not predicted: they reject a form only.
    """

    targets: TargetDevices
    cards: Mapping[str, Card]
    predictor: DevicePredictor

    def explain_no_training(self, candidate: Configuration, known: Known) -> str:
        """Return why a card is not trained for a recipe; empty if it may be worth training.

        It is rejected if it is too slow or too large for every device of the question, or for one
        that it must run on as well. This machine rejects nothing here: it measures.
        """
        card = self.cards[candidate.card]
        recipe = candidate.compression
        limits = known.limits
        reasons = []
        for device in self.targets.devices:
            reason = self._explain_on(device, card, recipe, limits.latency_ms)
            if device.label not in limits.must_run_on:
                reasons.append(reason)
            # One required device is enough to reject.
            elif reason:
                return reason
        # Of the others, all must reject.
        if self.targets.host or not all(reasons):
            return ""
        return "; ".join(reasons)

    def worst_latency(
        self,
        card: Card,
        recipe: str,
        budget_ms: float | None,
        host_estimate: LatencyEstimate,
    ) -> LatencyEstimate:
        """Return the latency on the slowest device of the question,
        and the least probability to meet the budget.

        ``host_estimate``, that of this machine, counts if this machine is a device of the
        question, and stands for other runtimes of this machine. There is none where a device does
        not take the form, or cannot be predicted, and no probability where nothing like a device
        was measured.
        """
        predicted = [device for device in self.targets.devices if device.runtime is None]
        estimates = []
        is_unknown = False
        for device in predicted:
            prediction = self.predictor.predict_card(card, recipe, device)
            if isinstance(prediction, str):
                return LatencyEstimate(None, None)
            is_unknown = is_unknown or bool(prediction.unlike)
            chance = None if budget_ms is None else prediction.probability(budget_ms)
            estimates.append(LatencyEstimate(prediction.latency, chance))
        if self.targets.host:
            estimates.append(host_estimate)
        elif not predicted:
            estimates.append(LatencyEstimate(host_estimate.latency, None))
        latencies = [estimate.latency for estimate in estimates if estimate.latency is not None]
        slowest = max(latencies, key=lambda latency: latency.value, default=None)
        # The other devices do not tell whether a device like no other meets the budget.
        if is_unknown:
            return LatencyEstimate(slowest, None)
        chances = [estimate.chance for estimate in estimates if estimate.chance is not None]
        return LatencyEstimate(slowest, min(chances, default=None))

    def _explain_on(
        self,
        device: TargetDevice,
        card: Card,
        recipe: str,
        budget_ms: float | None,
    ) -> str:
        """Return why one device rejects a card; empty if it does not."""
        reason = card_rejection(card, recipe, device)
        if reason or device.runtime is not None:
            return reason
        prediction = self.predictor.predict_card(card, recipe, device)
        if isinstance(prediction, str) or budget_ms is None:
            # If nothing can be predicted for the card, its file decides later.
            return ""
        # A device that is connected is measured.
        if prediction.unlike and device.profile.connection is None:
            return f"{device.label}: {prediction.unlike}: not trained"
        probability = prediction.probability(budget_ms)
        if probability >= MIN_BUDGET_PROBABILITY:
            return ""
        sure = f"{show_probability(probability)} sure to meet {show_ms(budget_ms)}"
        return f"{show_latency(prediction.latency)} on {device.label}, {sure}: not trained"
