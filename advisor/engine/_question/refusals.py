"""Say which options contradict each other, and what to do about it.

``parsing.py`` asks :func:`find_refusals` after it has parsed the options one by one, and raises
the first refusal. So their order there decides which of several a user reads. What only the images
show is refused later, by ``_space/question_images.py``.
"""

from collections.abc import Iterator

from advisor.core import (
    LOCAL,
    METRICS,
    TASKS,
    Metric,
    Sampler,
    ShipOn,
    TrainingName,
    recipe_of,
    units,
)
from advisor.devices import ConnectionSettings
from advisor.engine._question.guarantees import PRECISION, RECALL
from advisor.engine._question.metric_limits import DROPS, FLOORS
from advisor.engine._question.options import Options
from advisor.engine._question.values import Execution, Question, Request

Refusals = Iterator[tuple[str, str]]
"""The fault of an option, and what to do about it."""


def find_refusals(request: Request, written: Options) -> Refusals:
    """Yield why a request cannot be answered, nothing if it can."""
    question = request.question
    yield from _refuse_contradictions(question, written["training"])
    yield from _refuse_metrics(question, written)
    yield from _refuse_execution(request.execution)
    yield from _refuse_cloud(request)
    yield from _refuse_ship_on(request)


def _refuse_contradictions(question: Question, training: tuple[str, ...]) -> Refusals:
    """Yield the parts of a question that contradict each other;
    ``training`` are the recipes that the user named.
    """
    task = question.of_task
    option = f"--task {question.task}"
    if not task.published and question.data is None:
        yield f"{option} needs --data: no card has a published {task.metric}", "add --data DIR"
    for name in training:
        if name not in task.trainings:
            yield (
                f"--training: '{name}' is not for {option}",
                f"one of: {', '.join(task.trainings)}; or leave it out",
            )
    for guarantee in question.guarantees.options:
        if guarantee not in task.guarantees:
            why = "answer every image" if task.guarantees else "have no probability of a class"
            yield f"{guarantee}: models for {option} {why}", f"leave {guarantee} out"
    yield from _refuse_guarantees(question)
    yield from _refuse_input_size(question)
    if question.unknown is not None and not task.probabilities:
        why = f"--unknown: models for {option} have no probability of a class"
        yield why, "leave --unknown out; images without an object may be part of --data"
    yield from _refuse_start(question)
    if question.tune_training and not task.tunable:
        yield (
            f"--tune-training: fine-tuning for {option} has fixed hyperparameters",
            "leave --tune-training out",
        )
    if question.robust and not task.robust:
        why = f"--objective: robust accuracy is not for {option}"
        yield why, "leave --objective out: images are scored as they are"
    if question.fleet and question.limits.latency_ms is None:
        yield (
            "--fleet needs a latency limit: without one, the best file serves every phone",
            "add --budget 50ms",
        )
    if question.data is None:
        yield from _refuse_without_data(question, training)
    # `none` keeps the classes of ImageNet, and the images have classes of their own.
    elif TrainingName.NONE in training:
        others = ", ".join(name for name in task.trainings if name != TrainingName.NONE)
        yield (
            "--training none cannot be combined with --data",
            f"take {others}, or leave --data out",
        )
    fine_tunes = any(recipe_of(name).tunes_backbone for name in question.trainings)
    if question.tune_training and not fine_tunes:
        why = (
            f"--tune-training: {question.tune_training} trials of fine-tuning, and nothing is"
            " fine-tuned"
        )
        yield why, "add --training finetune_top, or leave --tune-training out"


def _refuse_start(question: Question) -> Refusals:
    """Yield why no training can start from the earlier run that the question names."""
    if question.start is not None and not question.of_task.whole_networks:
        yield f"--start: it is not for --task {question.task}", "leave --start out"


def _refuse_input_size(question: Question) -> Refusals:
    """Yield why the networks cannot have the input of ``--input-size``."""
    side = question.input_size
    if not side:
        return
    if not TASKS[question.task].side:
        why = f"--input-size: each network for --task {question.task} has the input of its card"
        yield (
            why,
            "leave --input-size out, or name networks with another input: advisor catalog list",
        )
    # The backbones halve a map five times, so another side leaves a part of a cell.
    elif side % units.INPUT_STEP:
        step = units.INPUT_STEP
        smaller = side // step * step
        nearest_sizes = f"{smaller} or {smaller + step}" if smaller else f"{step}"
        why = (
            f"--input-size: {side} pixels are no multiple of {step}, by which networks reduce an"
            " image"
        )
        yield why, f"take {nearest_sizes}"


def _refuse_guarantees(question: Question) -> Refusals:
    """Yield what one threshold, for all classes or for each, cannot keep."""
    asked = question.guarantees
    task = question.of_task
    if task.probabilities or not task.guarantees:
        return
    if task.own_thresholds:
        twice = asked.precision.by_class.keys() & asked.recall.by_class.keys()
        both = asked.precision.plain is not None and asked.recall.plain is not None
        labels = ["all labels"] if both else sorted(f"'{name}'" for name in twice)
        hint = f"a label has one threshold: leave one out, or write for example {RECALL} NAME=90%"
        for label in labels:
            why = f"{PRECISION} and {RECALL}: {label} cannot keep both with --task {task.name}"
            yield why, hint
        return
    for option, shares in ((PRECISION, asked.precision), (RECALL, asked.recall)):
        for name in shares.by_class:
            why = f"{option}: '{name}' cannot have a share of its own with --task {task.name}"
            yield why, f"all classes have one threshold: write for example {option} 90%"
    if asked.precision and asked.recall:
        why = (
            f"{PRECISION} and {RECALL}: there is one threshold with --task {task.name}, which can"
            " keep one of them"
        )
        yield why, "leave one out; the report shows both shares for it"


def _refuse_without_data(question: Question, training: tuple[str, ...]) -> Refusals:
    """Yield what needs images, for a question that has none."""
    absent = "and --data is not given"
    folder = "add --data DIR (one sub-folder for each class), or leave"
    for name in training:
        if recipe_of(name).learns:
            yield f"--training: '{name}' learns from images, {absent}", f"{folder} --training out"
    if question.robust:
        yield (
            f"--objective: robust accuracy is measured on images, {absent}",
            f"{folder} --objective out",
        )
    for guarantee in question.guarantees.options:
        yield (
            f"{guarantee}: the threshold is chosen on images, {absent}",
            f"add --data DIR, or leave {guarantee} out",
        )
    if question.unknown is not None:
        why = f"--unknown: its images are compared with those of your classes, {absent}"
        yield why, "add --data DIR, or leave --unknown out"
    if question.limits.drops:
        yield (
            f"--max-drop: the drop is measured on images, {absent}",
            "add --data DIR, or leave --max-drop out",
        )


def _refuse_metrics(question: Question, written: Options) -> Refusals:
    """Yield a metric, costs or limits of metrics that the question cannot have."""
    limited = {
        FLOORS: dict(question.limits.min_metrics),
        DROPS: dict(question.limits.max_metric_drops),
    }
    values = {"--costs": written["costs"], "--metric": written["metric"], **limited}
    option = next((option for option, value in values.items() if value), "")
    if not option:
        return
    named = option
    if option in limited:
        first_metric = next(iter(limited[option]))
        named = f"{option} {first_metric}=..."
    task = TASKS[question.task]
    counted = [question.metric] if written["metric"] or written["costs"] else []
    for name in (*counted, *limited[FLOORS], *limited[DROPS]):
        if name not in task.metrics:
            others = f"by {', '.join(task.metrics)}" if task.metrics else "by no other metric"
            yield (
                f"{named}: models for --task {task.name} are judged by {task.metric}, or {others}",
                f"leave {option} out",
            )
    for name in limited[DROPS]:
        if not METRICS[name].of_boxes:
            why = (
                f"{DROPS} {name}=...: of another metric than the one that counts, only detectors"
                " have a drop"
            )
            yield why, f"add --metric {name}, and write {DROPS} 1pt"
    if question.data is None:
        why = f"{named}: this metric is measured on images, and --data is not given"
        yield why, f"add --data DIR (one sub-folder for each class), or leave {option} out"
    if question.robust and question.metric != Metric.TOP1:
        asked = f"{named} asks for {question.metric}"
        yield (
            f"--objective robust-accuracy is top-1 under capture conditions, and {asked}",
            "leave --objective out, or add --metric top1; other metrics can be limits:"
            " --min-accuracy macro-f1=80%",
        )


def _refuse_ship_on(request: Request) -> Refusals:
    """Yield why no file can learn from all images;
    only classifiers do, whose answers show whether it went well.
    """
    question = request.question
    option = "--ship-on all"
    if request.execution.ship_on != ShipOn.ALL:
        return
    if question.data is None:
        yield (
            f"{option} learns from images, and --data is not given",
            "add --data DIR, or leave --ship-on out",
        )
    if not question.of_task.probabilities:
        yield (
            f"{option} is not for --task {question.task}: only classifiers learn from all images",
            "leave it out",
        )


def _refuse_cloud(request: Request) -> Refusals:
    """Yield a device of a cloud in a search that opens no connection."""
    devices = (*request.question.devices, *request.question.limits.must_run_on)
    named = next(filter(ConnectionSettings.names_cloud, devices), None)
    if named is not None and request.execution.offline:
        yield (
            f"--offline opens no connection, and '{named}' is in a device cloud",
            "leave one of the two out",
        )


def _refuse_execution(execution: Execution) -> Refusals:
    """Yield options of the execution that do nothing, or cannot be had here."""
    sampler = execution.sampler
    folder = execution.shared_folder
    if execution.stop_below and sampler != Sampler.ADVISOR:
        why = f"--stop-below needs --sampler advisor, not '{sampler}'"
        yield why, "leave --stop-below out, or take --sampler advisor"
    if folder is not None and execution.executor == LOCAL:
        why = "--shared-folder: the local executor uses no other machines"
        yield why, "add --executor ray, or leave it out"
    if folder is not None and not folder.is_dir():
        why = f"--shared-folder: '{folder}' is not a folder on this machine"
        hint = (
            "name a folder that this machine and every node of the cluster see under the same name"
        )
        yield why, hint
