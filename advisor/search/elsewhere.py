"""What artefacts would do on a device that is not at hand: predicted, without running anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from advisor.core.chance import CONFIDENCE, KEY, asked, sampled
from advisor.core.evaluation import Evaluation, Status, Target
from advisor.core.figures import artefact_of
from advisor.core.units import show_bytes
from advisor.devices.profiles import DeviceProfile, DeviceTarget
from advisor.search.expected import device_predictor
from advisor.store.hashing import sha256_json

if TYPE_CHECKING:
    from advisor.catalog.cards import Card
    from advisor.devices.latency.features import FeatureTable, ModelFeatures
    from advisor.devices.latency.from_file import FileFeatures
    from advisor.devices.prediction import Prediction, Predictor

LEVEL = 0.8
"""Confidence of the interval that is shown."""

GRAPH = "graph"
"""Name among an evaluation's details of what its file holds (:class:`FileFeatures`)."""

FORMS: Mapping[str, str] = {
    "int8_per_tensor": "int8",
    "int8_float_io": "int8",
    "mixed_int8": "int8",
    "qat_int8": "int8",
    "rounded": "float32",
}
"""Recipes, and the form that most of their work is done in; others are a form themselves."""

ACCEPTS: Mapping[str, tuple[str, ...]] = {
    "float16": ("float16", "float32"),
    "int8": ("int8",),
    "int16x8": ("int16x8",),
}
"""Precisions of which a target must take one for a form; other forms need ``float32``."""

INTEGER_OR_FLOAT = ("npu", "tpu")
"""Accelerators that compute in one arithmetic: the mixed one of ``dynamic_int8`` falls back to the CPU."""

LEAVES_BELOW = 0.05
"""Chance to meet the latency budget below which a candidate leaves before it is trained."""

KEPT = (
    "answers",
    "per_class_recall",
    "confusion",
    "holdout",
    "params",
    "macs",
    "licence",
    "input_size",
    "preprocessing",
    "weights",
    "agreement",
    "agreement_pictures",
    "download_bytes",
    "download_zstd_bytes",
    "arena_bytes",
    "robustness",
    GRAPH,
)
"""Details that hold on any device."""


@dataclass(frozen=True)
class Place:
    """One target of one device, and the name under which evaluations on it are kept."""

    label: str
    profile: DeviceProfile
    target: DeviceTarget

    @property
    def identity(self) -> Target:
        """The identity under which evaluations are kept."""
        return self.target.of(self.label)


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
        self, evaluations: Sequence[Evaluation], place: Place, budget_ms: float | None, confidence: float = CONFIDENCE
    ) -> tuple[Evaluation, ...]:
        """Return one evaluation an artefact on the device; what cannot be said is ``skipped`` with its reason."""
        moved = [_moved(evaluation, place) for evaluation in one_per_artefact(evaluations)]
        found = self._predictions(place, [self._model(evaluation) for evaluation in moved])
        return tuple(
            self._evaluated(evaluation, prediction, place, budget_ms, confidence)
            for evaluation, prediction in zip(moved, found, strict=True)
        )

    def of_cards(self, cards: Sequence[Card], recipe: str, place: Place) -> list[Prediction | str]:
        """Return what to expect of cards in a recipe's form before there is a file, or why nothing is known."""
        form = FORMS.get(recipe, recipe)
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
        place: Place,
        budget_ms: float | None,
        confidence: float,
    ) -> Evaluation:
        reason = misfit(evaluation, place) or (prediction if isinstance(prediction, str) else "")
        if reason or isinstance(prediction, str):
            return _skipped(evaluation, reason)
        details = {**evaluation.details, KEY: sampled(prediction.quantile)}
        return asked(replace(evaluation, latency=prediction.latency, details=details), budget_ms, confidence)

    def _predictions(self, place: Place, models: Sequence[tuple[str, ModelFeatures | None]]) -> list[Prediction | str]:
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
        configuration, details = evaluation.configuration, evaluation.details
        graph = graph_of(evaluation)
        if graph is not None:
            return graph.form, graph.features(configuration.card, evaluation.family, self.table)
        form = FORMS.get(configuration.compression, configuration.compression)
        macs, params, size = (details.get(name) for name in ("macs", "params", "input_size"))
        if not macs or not params or not size:
            return form, None
        return form, self.table.features(configuration.card, evaluation.family, float(macs), float(params), int(size))


def graph_of(evaluation: Evaluation) -> FileFeatures | None:
    """Return what the evaluation's file holds, None where that was not kept."""
    from advisor.devices.latency.from_file import FileFeatures

    kept = evaluation.details.get(GRAPH)
    return FileFeatures.from_json(kept) if kept else None


def one_per_artefact(evaluations: Sequence[Evaluation]) -> tuple[Evaluation, ...]:
    """Return one evaluation that is ok of each artefact: its threads say nothing about another device."""
    found: dict[tuple[str, str, str], Evaluation] = {}
    for evaluation in evaluations:
        if evaluation.status is Status.OK:
            found.setdefault(artefact_of(evaluation), evaluation)
    return tuple(found.values())


def unfit(form: str, place: Place) -> str:
    """Say why a target does not take a form, empty where it does."""
    if form == "dynamic_int8" and place.target.accelerator in INTEGER_OR_FLOAT:
        return f"{place.label}:{place.target.name} does not compute floats with 8-bit weights"
    if set(ACCEPTS.get(form, ("float32",))) & set(place.target.precisions):
        return ""
    return f"{place.label}:{place.target.name} takes {', '.join(place.target.precisions)}, not {form}"


def misfit(evaluation: Evaluation, place: Place) -> str:
    """Say why an artefact cannot run on a target: its form, its operators, its memory, its size; empty where it can."""
    recipe, graph = evaluation.configuration.compression, graph_of(evaluation)
    form = graph.form if graph else FORMS.get(recipe, recipe)
    checks = [unfit(form, place), _too_large(evaluation, place)]
    if graph is not None:
        checks += [_lacks(graph, place), _too_hungry(graph, place)]
    return next((reason for reason in checks if reason), "")


def _lacks(graph: FileFeatures, place: Place) -> str:
    taken = place.target.operators
    lacking = [name for name in graph.operators if name not in taken] if taken else []
    return f"{place.label}:{place.target.name} does not take {', '.join(lacking)}" if lacking else ""


def _too_hungry(graph: FileFeatures, place: Place) -> str:
    room = place.profile.limits.arena_bytes
    if room is None or graph.arena_bytes <= room:
        return ""
    return f"its activations take {show_bytes(graph.arena_bytes)}, {place.label} has {show_bytes(room)} for them"


def _too_large(evaluation: Evaluation, place: Place) -> str:
    limits = place.profile.limits
    room = min((limit for limit in (limits.flash_bytes, limits.package_bytes) if limit is not None), default=None)
    if room is None or evaluation.size is None or evaluation.size.value <= room:
        return ""
    return f"its {show_bytes(evaluation.size.value)} do not fit into {show_bytes(room)} of {place.label}"


def _moved(evaluation: Evaluation, place: Place) -> Evaluation:
    """Return what stays of an evaluation on another device: accuracy, size and the artefact."""
    return replace(
        evaluation,
        configuration=replace(evaluation.configuration, target=place.identity),
        latency=None,
        latency_p90=None,
        memory=None,
        contended=False,
        details={name: evaluation.details[name] for name in KEPT if name in evaluation.details},
    )


def _skipped(evaluation: Evaluation, reason: str) -> Evaluation:
    return replace(evaluation, status=Status.SKIPPED, stage="predict", reason=reason)
