"""What a finished run shows beside its decision.

Compare the pick with its float32 file and with what ships now,
and expect what fine-tuning would add.
"""

import json
import math
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from advisor.catalog import load_catalogue
from advisor.compression import Diagnosis
from advisor.core import (
    FINETUNE_CACHED,
    FLOAT,
    HEAD,
    AdvisorError,
    Evaluation,
    Interval,
    Provenance,
    Quantity,
    Status,
    recipe_of,
)
from advisor.datasets import HOLDOUT, TRAIN, VALIDATION
from advisor.engine._decide import correct_answers, read_image_array
from advisor.engine._history.diagnoses import read_diagnoses
from advisor.engine._history.label_check import CheckedLabels, read_label_check
from advisor.engine._history.loaded_run import LoadedRun, load_run
from advisor.engine._history.run_inputs import read_section
from advisor.engine._history.unfinished import Unfinished, read_unfinished_search
from advisor.engine._pipeline.cost import CostCalibration
from advisor.engine._pipeline.evaluation.accuracy import share_of
from advisor.engine._pipeline.stage import StageName
from advisor.engine._pipeline.stages.finetuning import training_s
from advisor.isolation import agent, part_of_a_core
from advisor.store import Problem, RunFolder

PARTS = {HOLDOUT: "hold-out", VALIDATION: "validation"}
"""Parts of the images in words. The hold-out comes first: there, the files that ship ran."""

LEAST_POINTS = 0.5
"""Fine-tuning that is expected to add less than this is not mentioned."""

LEAST_IMAGES = 300
"""Training images below which no gain is stated. With 400 of TrashNet, MobileNets gained nothing
(``benchmarks/results/tuning_promotion_table.csv``), but hand signs gained 3 points with 866:
validation decides.
"""

TUNING_MARGIN = 1.5
AROUND_TUNING_S = 90.0
"""Factor on the expected seconds of fine-tuning, and the seconds of features, head, forms and
hold-out around it, in the time limit of the search that is suggested.
"""

CLOSE = 1e-3
"""Points between an accuracy and that of its answers, whose shares are kept with seven digits."""


@dataclass(frozen=True)
class ImageAnswer:
    """An answer.

    Attributes:
        label: number of the class, from 0.
        probability: its probability (0-1), None if that is not known.
    """

    label: int
    probability: float | None = None


@dataclass(frozen=True)
class Disagreement:
    """One image with two answers.

    Attributes:
        path: path of the image, relative to the data set.
        sha256: its hash.
        label: its class.
        own: answer of the compressed file.
        floats: answer of the float32 file.
    """

    path: str
    sha256: str
    label: int
    compressed: ImageAnswer
    floats: ImageAnswer

    @property
    def right(self) -> tuple[bool, bool]:
        """Return whether the compressed file is right, and whether the float32 file is."""
        return self.compressed.label == self.label, self.floats.label == self.label


@dataclass(frozen=True)
class Disagreements:
    """All images of one part with two answers.

    Attributes:
        form: compression recipe of the compressed file.
        part: ``hold-out`` or ``validation``.
        images: number of images of the part.
        rows: first the images on which only float32 is right, then those on which only the form
            is, then the others.
    """

    form: str
    part: str
    images: int
    rows: tuple[Disagreement, ...]

    @property
    def sentence(self) -> str:
        """A sentence with the number of images that differ,
        and on how many of them each file is right.
        """
        if not self.rows:
            return (
                f"{self.form} and {FLOAT} give the same answer on each of {self.images}"
                f" {self.part} images."
            )
        compressed, floats = map(sum, zip(*(row.right for row in self.rows), strict=True))
        return (
            f"{self.form} and {FLOAT} differ on {len(self.rows)} of {self.images} {self.part}"
            f" images: {self.form} is right on {compressed} of them, {FLOAT} on {floats}."
        )


def find_disagreements(
    run: RunFolder, evaluations: Sequence[Evaluation], pick: Evaluation | None
) -> Disagreements | None:
    """Return the images on which the pick and its float32 file disagree,
    None where they have no answers to compare.

    They are of the hold-out if both files ran there, otherwise of the validation part.
    """
    if pick is None or pick.configuration.compression == FLOAT:
        return None
    floats = []
    for evaluation in evaluations:
        if evaluation.variant == (*pick.network, FLOAT):
            floats.append(evaluation)
    split = run.read_json("split.json")
    # Both files must have answered the same part.
    # A run without finalists has answers on validation only.
    for part, name in PARTS.items():
        images = _images(split, part)
        compressed = _answers(run, pick, part, images)
        other = next(
            filter(None, (_answers(run, evaluation, part, images) for evaluation in floats)), ()
        )
        if compressed and other:
            rows = []
            for image, *pair in zip(images, compressed, other, strict=True):
                rows.append(Disagreement(*image, *pair))
            differing = [row for row in rows if row.compressed.label != row.floats.label]
            # Images on which exactly one file is right come first:
            # they are what the compression costs or gains.
            differing.sort(key=lambda row: (not any(row.right), row.right[0]))
            return Disagreements(
                pick.configuration.compression, name, len(images), tuple(differing)
            )
    return None


def _answers(
    run: RunFolder, evaluation: Evaluation, part: str, images: Sequence[tuple[str, str, int]]
) -> list[ImageAnswer]:
    """Return the answers that the run has of a file;
    none where it has shares, or answers under capture conditions.
    """
    judged = evaluation.holdout_answers if part == HOLDOUT else evaluation.answers
    labels = None
    if judged and judged.file:
        labels = read_image_array(run, judged.file)
    if (
        judged is None
        or labels is None
        or labels.dtype.kind not in "iu"
        or labels.shape != (len(images),)
    ):
        return []
    mistakes = judged.confidence.mistakes if judged.confidence else ()
    known = {mistake.sha256: mistake.probability for mistake in mistakes}
    return [
        ImageAnswer(int(label), known.get(sha256))
        for label, (_, sha256, _) in zip(labels, images, strict=True)
    ]


def _images(split: Mapping[str, Any], part: str) -> list[tuple[str, str, int]]:
    """Return path, hash and label of the images of a part;
    none where the split is missing or damaged.
    """
    try:
        label_of = {name: label for label, name in enumerate(split["classes"])}
        return [
            (str(row["path"]), str(row["sha256"]), label_of[row["class"]]) for row in split[part]
        ]
    except (KeyError, TypeError):
        return []


@dataclass(frozen=True)
class Incumbent:
    """A file that the user ships today, beside the pick.

    Attributes:
        evaluation: the file with the threads of the pick, if it was measured with them.
        picked: it is the pick itself.
        points: accuracy of the pick less that of the file on the same images, with a 95 %
            interval; of the pick itself, less that of ``rival``; None if it is not known.
        part: the part of these images in words.
        rival: where the file is the pick, the file trained here that is best on the hold-out; None
            if none ran there.
    """

    evaluation: Evaluation
    picked: bool
    points: Quantity | None = None
    part: str = ""
    rival: Evaluation | None = None


def find_contradictions(folder: RunFolder) -> Iterator[Problem]:
    """Yield what the files of a run contradict: counts, sizes of files, accuracies and the
    answer.
    """
    run = load_run(folder)
    lines = folder.evaluations_file.name
    split = folder.read_json("split.json")
    counts = {}
    for part in (TRAIN, VALIDATION, HOLDOUT):
        counts[part] = len(split.get(part) or ())
    # Copies of images of an earlier part are in no part (decision 0119).
    images = sum(read_section(run.dataset, "pictures_per_class").values()) - sum(
        read_section(run.dataset, "copies").values()
    )
    if split and (
        {part: run.dataset.get(part) for part in counts} != counts
        or images != sum(counts.values())
    ):
        yield Problem("dataset.json", "counts other images than split.json")
    devices = Counter(row.configuration.target.device for row in run.evaluations)
    # Each device has a row for each configuration, so the largest count of one device is compared.
    if max(devices.values(), default=0) > run.manifest.get("configurations", math.inf):
        yield Problem(lines, "has more configurations than manifest.json counts")
    for row in (row for row in run.evaluations if row.status is Status.OK):
        for what in _contradictions(run, row):
            yield Problem(lines, f"{row.configuration.key}: {what}")
    pick = run.decision.pick
    answer = folder.read_json("recommendation.json")
    # The answer was read from JSON, which turns tuples into lists,
    # so the pick is compared after the same way.
    expected = {**(pick.to_json() if pick else {}), "details": run.decision.feasible}
    given = {**read_section(answer, "pick"), "details": answer.get("feasible")}
    # A search that was killed may have evaluated more than its answer so far knows.
    if run.manifest.get("stopped") and answer and json.loads(json.dumps(expected)) != given:
        yield Problem(
            "recommendation.json",
            "has another pick, or other figures of it, than the evaluations give",
        )


def _contradictions(run: LoadedRun, row: Evaluation) -> Iterator[str]:
    """Yield what the files of an evaluation contradict."""
    configuration = row.configuration
    size = row.size.value if row.size else 0
    name = f"{configuration.card}-{configuration.training}-{configuration.compression}.tflite"
    if row.artefact != f"artifacts/{name}":
        yield f"{row.artefact} is not the file of this configuration"
    files = [(row.artefact, size)]
    for copy in (row.unknown, row.on_all):
        if copy and copy.file:
            files.append((copy.file, copy.size_bytes))
    for file, stated in files:
        path = run.folder.path / file
        if path.is_file() and path.stat().st_size != stated:
            yield f"{path.name} has {path.stat().st_size} bytes, not {stated:.0f}"
    of_parts = {
        VALIDATION: (row.answers, row.accuracy),
        HOLDOUT: (row.holdout_answers, row.holdout_accuracy),
    }
    for part, (judged, accuracy) in of_parts.items():
        if not run.dataset or not judged or not judged.compared_by or not accuracy:
            continue
        right = correct_answers(run.folder, row, part) or ()
        figure = replace(accuracy, value=100 * sum(right) / max(1, len(right)), n=len(right))
        # Top-1 has an interval that follows from the count of right answers;
        # other figures have one of their own.
        if right and judged.confusion and not judged.shares and row.capture.plain is None:
            figure = share_of([share == 1 for share in right], "")
        if not _are_close(figure, accuracy):
            yield (
                f"the answers on {PARTS[part]} give {_show_count(figure)}, not"
                f" {_show_count(accuracy)}"
            )


def _are_close(figure: Quantity, other: Quantity) -> bool:
    """Return whether value, ends of the interval and number of images are equal but for
    rounding.
    """
    return (
        abs(figure.value - other.value) <= CLOSE
        and abs((figure.low or 0) - (other.low or 0)) <= CLOSE
        and abs((figure.high or 0) - (other.high or 0)) <= CLOSE
        and abs((figure.n or 0) - (other.n or 0)) <= CLOSE
    )


def _show_count(figure: Quantity) -> str:
    low = figure.low or 0
    high = figure.high or 0
    return f"{figure.value:.2f} % ({low:.1f}-{high:.1f}) of {figure.n or 0} images"


def find_incumbents(
    run: RunFolder,
    evaluations: Sequence[Evaluation],
    pick: Evaluation | None,
    robust: bool = False,
) -> tuple[Incumbent, ...]:
    """Return the files that the user ships, in the order of their names.

    Accuracies are compared on the hold-out if both files ran there
    and ``robust`` accuracy does not count, otherwise on validation.
    """
    if pick is None:
        return ()
    target = pick.configuration.target
    shipped = []
    for evaluation in evaluations:
        if evaluation.status is Status.OK and evaluation.card_facts.as_it_is:
            shipped.append(evaluation)
    there = [
        evaluation
        for evaluation in shipped
        if evaluation.configuration.target.device == target.device
    ]
    # With the threads of the pick, or the fastest.
    there.sort(
        key=lambda evaluation: (
            evaluation.configuration.target.threads != target.threads,
            evaluation.latency_ms,
        )
    )
    # Sorted by preference and read from behind, so the preferred row of each card is written last.
    nearest = {evaluation.configuration.card: evaluation for evaluation in reversed(there)}
    rival = _best_on_holdout(evaluations)
    return tuple(
        _compare_rival(run, row, pick, robust, rival) for _, row in sorted(nearest.items())
    )


def _best_on_holdout(evaluations: Sequence[Evaluation]) -> Evaluation | None:
    """Return the file trained here with the highest accuracy on the hold-out;
    None if none ran there.
    """
    trained = [evaluation for evaluation in evaluations if not evaluation.card_facts.as_it_is]
    judged = []
    for row in trained:
        if row.holdout_accuracy:
            judged.append((row.holdout_accuracy.value, row))
    if judged:
        return max(judged, key=lambda pair: pair[0])[1]
    return None


def _compare_rival(
    run: RunFolder, shipped: Evaluation, pick: Evaluation, robust: bool, rival: Evaluation | None
) -> Incumbent:
    if shipped.configuration.card == pick.configuration.card:
        # It may have learnt the validation images that chose it,
        # so the hold-out alone tells the two apart.
        points = None
        if rival is not None:
            points = _measure_gain(run, rival, pick, HOLDOUT)
        return Incumbent(shipped, True, points, PARTS[HOLDOUT] if points else "", rival)
    for part in (VALIDATION,) if robust else (HOLDOUT, VALIDATION):
        points = _measure_gain(run, shipped, pick, part)
        if points is not None:
            return Incumbent(shipped, False, points, PARTS[part])
    return Incumbent(shipped, picked=False)


def _measure_gain(
    run: RunFolder, shipped: Evaluation, pick: Evaluation, part: str
) -> Quantity | None:
    """Return the points of the pick over another file on the same images of a part;
    None if they are not known.
    """
    ours = correct_answers(run, shipped, part)
    theirs = correct_answers(run, pick, part)
    if not ours or not theirs:
        return None
    gained = Interval.difference_of_means(theirs, ours)
    value, low, high = (100 * bound for bound in (gained.value, gained.low, gained.high))
    return Quantity(value, "points", Provenance.MEASURED, low, high, 0.95, len(ours), PARTS[part])


@dataclass(frozen=True)
class ExpectedTuning:
    """Expected gain of fine-tuning the pick's card.

    Attributes:
        points: expected gain in points of top-1.
        low: lower end, in points, of the range that holds two thirds of the gains seen on other
            sets.
        high: upper end of that range in points.
        seconds: rough seconds by the clock on this machine.
        card: the card.
        limited: the search had a time limit, which the next one must exceed.
    """

    points: float
    low: float
    high: float
    seconds: float
    card: str
    limited: bool = False

    def command(self, folder: str) -> str:
        """Return the command that fine-tunes the card; its head comes from the cache."""
        limit = ""
        if self.limited:
            # The request has the limit of the search that had no time for it.
            # A busy machine takes longer than said.
            minutes = math.ceil((TUNING_MARGIN * self.seconds + AROUND_TUNING_S) / 60)
            limit = f" --time-limit {minutes}min"
        return (
            f"advisor search --request {shlex.quote(folder)}/request.yaml --training"
            f" {HEAD},{FINETUNE_CACHED} --candidates {self.card}{limit}"
        )


def expect_tuning_gain(run: LoadedRun) -> ExpectedTuning | None:
    """Return what fine-tuning is expected to add to the pick;
    None if it was fine-tuned, or cannot be or gain.
    """
    pick = run.decision.pick
    train = run.dataset.get("train")
    if (
        pick is None
        or pick.configuration.training != HEAD
        or not isinstance(train, int)
        or train < LEAST_IMAGES
    ):
        return None
    if FINETUNE_CACHED not in run.question.of_task.trainings:
        return None
    name = pick.configuration.card
    tuned = (
        evaluation.configuration
        for evaluation in run.evaluations
        if evaluation.accuracy is not None
    )
    if any(
        configuration.card == name and recipe_of(configuration.training).tunes_backbone
        for configuration in tuned
    ):
        return None
    try:
        card = load_catalogue(run.question.catalog).get(name)
    except AdvisorError:
        return None
    tuning = recipe_of(FINETUNE_CACHED)
    # Gains are shares of the errors (decision 0048): a head with 98 % has little left to gain.
    room = 100.0 - pick.accuracy_percent
    if card is None or card.own_file or math.isnan(room) or tuning.gain * room < LEAST_POINTS:
        return None
    # The network that ships is trained after the compared one, so both are paid.
    rough_s = training_s(card, FINETUNE_CACHED, train) + training_s(
        card, FINETUNE_CACHED, train, ships=True
    )
    calibration = CostCalibration(part=part_of_a_core(), cores=agent.count_cores())
    seconds = calibration.expect_s(StageName.FINETUNE_CACHED, rough_s)
    low, middle, high = (room * (tuning.gain + sd * tuning.spread) for sd in (-1, 0, 1))
    limited = run.request.execution.time_limit_s is not None
    return ExpectedTuning(middle, low, high, seconds, name, limited)


@dataclass(frozen=True)
class Insights:
    """Facts of a run beside its decision.

    Attributes:
        tuning: what fine-tuning is expected to add to the pick; None if it was fine-tuned or
            cannot be.
        unfinished: how far the search came; None if it has ended.
        incumbents: the files that the user ships, beside the pick.
        labels: the likely wrong labels; None if the search did not look for them.
        disagreements: the images on which the pick and its float32 file disagree; None where they
            are not known.
        diagnoses: why a compressed file loses accuracy, by its configuration's key.
    """

    tuning: ExpectedTuning | None = None
    unfinished: Unfinished | None = None
    incumbents: tuple[Incumbent, ...] = ()
    labels: CheckedLabels | None = None
    disagreements: Disagreements | None = None
    diagnoses: Mapping[str, Diagnosis] = field(default_factory=dict)


def find_insights(run: LoadedRun, running: bool) -> Insights:
    """Return what a run shows beside its decision; its search is ``running`` or not."""
    folder = run.folder
    pick = run.decision.pick
    unfinished = read_unfinished_search(run, running)
    # A search that goes on may still fine-tune the pick itself.
    return Insights(
        tuning=None if unfinished else expect_tuning_gain(run),
        unfinished=unfinished,
        incumbents=find_incumbents(folder, run.evaluations, pick, run.question.robust),
        labels=read_label_check(folder),
        disagreements=find_disagreements(folder, run.evaluations, pick),
        diagnoses=read_diagnoses(folder),
    )
