"""Put the stages of a variant together: from a model card to a file that could ship, to its
figures.

A variant is a card, a training and a compression. Evaluator, scorer, plan and prices ask
:class:`VariantStages` for the stages that they need, and the walker runs what comes before them.
The task has the stage that makes its float file, and the one that runs its files over images.
Adding a stage takes edits in six files, of which this is one; ``docs/extend-stages.md`` shows
them. An edge says whose result a stage gets. The key of a stage comes from its own ``inputs``, so
an edge may change freely; another result for equal ``inputs`` needs a new version of the stage.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from advisor.catalog import Card
from advisor.compression import Needs, Recipe, lighter_recipes, recipe
from advisor.core import FLOAT, NewConditions, Status, form_of, recipe_of
from advisor.engine._pipeline import cost
from advisor.engine._pipeline.images import Role
from advisor.engine._pipeline.materials import (
    Artefact,
    LocalTarget,
    Purpose,
    Workload,
    input_spec,
)
from advisor.engine._pipeline.stage import Scope, Source, Stage, StageAborted, StageName, after
from advisor.engine._pipeline.stages.adjusting import can_adjust, replace_head
from advisor.engine._pipeline.stages.artefacts import (
    Calibration,
    CardForms,
    calibrate_float,
    compress_float,
    shares_calibration,
    with_confidence,
)
from advisor.engine._pipeline.stages.backbone import feature_stages, take_finished_file
from advisor.engine._pipeline.stages.figures import Answer, Timings, answer_stage, timing_stage
from advisor.engine._pipeline.stages.head import (
    Folds,
    TrainedHead,
    expect_robustness,
    fit_head,
    score_float,
)
from advisor.engine._pipeline.stages.other_runtimes import (
    RuntimeFigures,
    check_in_interpreter,
    measure_in_runtime,
)
from advisor.engine._pipeline.stages.unknown import (
    UnknownSources,
    WithUnknown,
    probe_classifier,
    with_unknown,
)
from advisor.measurement import MicroCheck, interpreter_of

ALWAYS = (FLOAT, "int8")
"""Forms of a fine-tuned network for which a time limit always leaves time. Those that are compared
are made and scored beside the training of the model that ships.
"""


def make_variant(
    card: Card,
    training: str,
    compression: str,
    purpose: Purpose,
    workload: Workload,
) -> Stage[Artefact]:
    """Return the stage that makes the file of a variant, after all the stages that it needs."""
    if not workload.trained_twice(training):
        purpose = Purpose.COMPARE if recipe_of(training).quick_head else Purpose.SHIP
    compared = None
    decides_on_scores = recipe(compression).needs is Needs.SCORING
    if purpose is not Purpose.COMPARE and workload.images and decides_on_scores:
        compared = make_variant(card, training, compression, Purpose.COMPARE, workload)
    source = workload.question.of_task.model(card, training, purpose, workload)
    recipes = workload.recipes_of(training)
    scope = Scope(card.name, training, compression, purpose)
    shared = None
    if shares_calibration(compression, recipes):
        shared = _calibrate_forms(card, training, purpose, workload)
    return compress_float(scope, source, CardForms(card, training, purpose), compared, shared)


def _calibrate_forms(
    card: Card, training: str, purpose: Purpose, workload: Workload
) -> Stage[Calibration]:
    """Return the stage that makes what all forms of a float file share."""
    source = workload.question.of_task.model(card, training, purpose, workload)
    earlier = None
    if purpose is not Purpose.COMPARE and workload.trained_twice(training):
        earlier = _calibrate_forms(card, training, Purpose.COMPARE, workload)
    scope = Scope(card.name, training, purpose=purpose)
    return calibrate_float(
        scope, source, CardForms(card, training, purpose), workload.recipes_of(training), earlier
    )


@dataclass(frozen=True)
class VariantStages:
    """The stages of one variant of a card; each property is one stage, or some.

    A user's finished file has one variant: it is taken, scored and timed, and stays as it is.
    """

    card: Card
    training: str
    compression: str
    workload: Workload

    @property
    def made_here(self) -> bool:
        """True where the file is trained or compressed here:
        its probabilities are calibrated, and float32 tells what it lost.
        """
        return not self.card.form

    def list_lighter(
        self, recipes: Mapping[str, Recipe], named: Collection[str]
    ) -> tuple[str, ...]:
        """Return the names of the compression recipes that come before this one;
        a finished file has its only form.
        """
        return lighter_recipes(self.compression, recipes, named) if self.made_here else ()

    @property
    def reference(self) -> VariantStages:
        """The float32 variant of the same card and training;
        a finished file is compared with itself.
        """
        return replace(self, compression=FLOAT) if self.made_here else self

    @cached_property
    def made(self) -> Stage[Artefact]:
        """The stage that makes the file that ships,
        before its head is adjusted and its probabilities are calibrated.

        Neither changes its time.
        """
        return self._make(Purpose.SHIP)

    def _make(self, purpose: Purpose) -> Stage[Artefact]:
        # Several properties ask for the same file, and its graph goes back to the card.
        if purpose not in self._files:
            self._files[purpose] = self._make_file(purpose)
        return self._files[purpose]

    @cached_property
    def _files(self) -> dict[Purpose, Stage[Artefact]]:
        """The stages that :meth:`_make` has returned."""
        return {}

    def _make_file(self, purpose: Purpose) -> Stage[Artefact]:
        if not self.made_here:
            return take_finished_file(self.card, self._scope, self.workload)
        return make_variant(self.card, self.training, self.compression, purpose, self.workload)

    @cached_property
    def ships(self) -> Stage[Artefact]:
        """The stage that makes the file that ships."""
        return self._calibrated(self._scope, Purpose.SHIP)

    @cached_property
    def on_all(self) -> Stage[Artefact]:
        """The stage that makes the same file from all images, the hold-out too:
        no stage runs it there.
        """
        return self._calibrated(replace(self._scope, purpose=Purpose.ALL), Purpose.ALL)

    def _calibrated(self, scope: Scope, purpose: Purpose) -> Stage[Artefact]:
        adjusted = self._adjusted(purpose)
        has_probabilities = self.workload.question.of_task.probabilities
        if not self.made_here or not self.workload.images or not has_probabilities:
            return adjusted
        # A quick head ranks cards and never ships, so nobody reads its probabilities.
        if recipe_of(self.training).quick_head:
            return adjusted
        return with_confidence(scope, adjusted, self.scored, self._folds)

    @cached_property
    def compared(self) -> Stage[Artefact]:
        """The stage that makes the file that candidates are compared by; of images alone."""
        return self._adjusted(Purpose.COMPARE)

    def _adjusted(self, purpose: Purpose) -> Stage[Artefact]:
        """Return the stage that makes a file whose head fits its own backbone;
        this changes no time either.
        """
        compressed = self._make(purpose)
        workload = self.workload
        if not self.made_here or not can_adjust(self.training, self.compression, workload):
            return compressed
        floats = workload.question.of_task.model(self.card, self.training, purpose, workload)
        scope = replace(self._scope, purpose=purpose)
        compared = self.compared if purpose is Purpose.SHIP else None
        return replace_head(self.card, scope, compressed, floats, workload, compared)

    @cached_property
    def head(self) -> Stage[TrainedHead] | None:
        """The stage that fits the head of a compared classifier;
        None if there is none, or it is trained further.
        """
        if not self.made_here or not self.workload.images:
            return None
        labelled = self.workload.question.of_task.labelled
        if recipe_of(self.training).tunes_backbone or not labelled:
            return None
        return fit_head(self.card, self.training, self.workload)

    @property
    def _folds(self) -> Folds | None:
        """The stages whose answers on the training part calibrate probabilities, too."""
        return (self.head, self.reference.scored) if self.head else None

    @cached_property
    def expected(self) -> Stage[NewConditions] | None:
        """The stage that estimates new conditions;
        None if nothing is judged, by the user's own hold-out, or for a finished file.
        """
        task = self.workload.question.of_task
        judged = self.made_here and self.workload.judged(self.training)
        if not judged or self.workload.own_holdout or not task.labelled:
            return None
        return expect_robustness(self.card, self.workload)

    @cached_property
    def scored(self) -> Stage[Path]:
        """The stage that runs the file on the validation part."""
        if self.head and self.compression == FLOAT and not recipe_of(self.training).quick_head:
            return score_float(self.card, self._scope, self.workload)
        return self.scoring(self._scope, self.compared, Role.VALIDATION, self._validation_s)

    @cached_property
    def captured(self) -> Stage[Path]:
        """The stage that runs the file on the validation part under capture conditions."""
        seconds = cost.capturing_s(
            self.card, self.compression, self.workload.images[Role.VALIDATION]
        )
        return self.workload.question.of_task.capture(
            self._scope, input_spec(self.card), self.compared, Role.VALIDATION, seconds
        )

    @cached_property
    def answered(self) -> Stage[tuple[Answer, ...]]:
        """The stage that runs the file on bundled photographs."""
        seconds = cost.scoring_s(self.card, self.compression, 0)
        return answer_stage(self._scope, input_spec(self.card), self.made, seconds)

    @cached_property
    def timed(self) -> Stage[Timings]:
        """The stage that times the file that ships."""
        return timing_stage(self._scope, self.made)

    def measured_in(self, target: LocalTarget) -> Stage[RuntimeFigures]:
        """Return the stage that measures the file that ships in another runtime of this
        machine.
        """
        memory_bytes = cost.export_bytes(self.card, self.compression)
        return measure_in_runtime(self._scope, self.ships, target, export_bytes=memory_bytes)

    def checked_in(self, runtime: str) -> Stage[MicroCheck]:
        """Return the stage that checks the file that ships in the interpreter of a runtime."""
        return check_in_interpreter(self._scope, self.ships, runtime)

    @property
    def in_other_runtimes(self) -> tuple[Stage[Any], ...]:
        """The stages that run the file on this machine for other targets that take its form."""
        form = form_of(self.compression).name
        stages: list[Stage[Any]] = []
        for local in self.workload.local_targets:
            if local.target.incompatibility(form):
                continue
            # A runtime of microcontrollers has an interpreter here, which tells no latency.
            if interpreter_of(local.target.runtime):
                stages.append(self.checked_in(local.target.runtime))
            else:
                stages.append(self.measured_in(local))
        return tuple(dict.fromkeys(stages))

    @cached_property
    def with_unknown(self) -> Stage[WithUnknown]:
        """The stage that adds a class for unknown things to the file that ships;
        of a finished file, it raises StageAborted.
        """
        if not self.made_here:
            raise StageAborted(
                Status.SKIPPED, StageName.SCORE, "a finished file gets no further class"
            )
        probe = probe_classifier(
            self._scope, input_spec(self.card), self.compared, Role.VALIDATION, self._validation_s
        )
        sources = UnknownSources(
            file=self.ships,
            scored=self.scored,
            features=probe,
            compared=self._learnt_features(Purpose.COMPARE),
            shipped=self._learnt_features(Purpose.SHIP),
            folds=self._folds,
        )
        return with_unknown(self._scope, sources, self.workload)

    def _learnt_features(self, purpose: Purpose) -> tuple[Stage[Path], ...]:
        """Return the stages that compute features of the float network
        on the images to learn from.

        A head does not change the backbone, whose features are known.
        Further columns come after them.
        """
        count = self.workload.images[Role.LEARNT]
        if not recipe_of(self.training).tunes_backbone:
            return feature_stages(self.card, Role.LEARNT, count).parts
        floats = make_variant(self.card, self.training, FLOAT, purpose, self.workload)
        scope = Scope(self.card.name, self.training, FLOAT, purpose)
        seconds = cost.scoring_s(self.card, FLOAT, count)
        return (probe_classifier(scope, input_spec(self.card), floats, Role.LEARNT, seconds),)

    @property
    def answers(self) -> Stage[Any]:
        """The stage that runs the file: on the validation part,
        or on bundled photographs without images.
        """
        return self.scored if self.workload.images else self.answered

    @property
    def evaluation(self) -> tuple[Stage[Any], ...]:
        """The last stages of the variant's evaluation."""
        robust = self.workload.question.robust and self.workload.images
        captured = (self.captured,) if robust else ()
        return (
            self.answers,
            *captured,
            *after(self.expected),
            self.timed,
            self.ships,
            *self.in_other_runtimes,
        )

    @property
    def judging(self) -> tuple[Stage[Any], ...]:
        """The stages that judge the variant if it is a finalist, as a plan prices them.

        At most ten files are finalists, about one of each network. Pick and runner-up are tested
        under capture conditions, and for robust accuracy one file of each network, which is the
        price.
        """
        if not self.workload.judged(self.training):
            return ()
        card = self.card
        images = self.workload.images
        task = self.workload.question.of_task
        scoring_s = cost.scoring_s(card, self.compression, images[Role.HOLDOUT])
        network = Scope(card.name, self.training)
        scored = self.scoring(network, self.ships, Role.HOLDOUT, scoring_s)
        if not self.workload.question.robust:
            return (scored,)
        judging_s = cost.judging_s(card, images[Role.CAPTURED])
        captured = task.capture(network, input_spec(card), self.ships, Role.CAPTURED, judging_s)
        return scored, captured

    def scoring(self, scope: Scope, source: Source, role: Role, seconds: float) -> Stage[Path]:
        """Return the stage that runs a file of the card over images."""
        return self.workload.question.of_task.score(
            scope, input_spec(self.card), source, role, seconds
        )

    @property
    def _validation_s(self) -> float:
        """CPU seconds of running the file over the validation part."""
        return cost.scoring_s(self.card, self.compression, self.workload.images[Role.VALIDATION])

    @property
    def _scope(self) -> Scope:
        return Scope(self.card.name, self.training, self.compression)


def with_all_before(stages: Iterable[Stage[Any]]) -> tuple[Stage[Any], ...]:
    """Return stages and all stages that they need, each once and in the order of the work."""
    ordered: dict[Stage[Any], None] = {}

    def add(stage: Stage[Any]) -> None:
        if stage not in ordered:
            for before in stage.after:
                add(before)
            ordered[stage] = None

    for stage in stages:
        add(stage)
    return tuple(ordered)
