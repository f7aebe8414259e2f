"""Refuse options that contradict each other, and read guarantees, before anything is spent."""

import re
from collections.abc import Sequence
from importlib.util import find_spec

from advisor.core import units
from advisor.core.confidence_facts import Guarantees, Shares
from advisor.core.errors import UsageError, install_extra, nearest
from advisor.core.names import ADVISOR, GP, LOCAL
from advisor.core.training import NONE, recipe_of
from advisor.engine.question.values import Execution, Question

MOST_WORKERS = 1000


def validate_question(question: Question, training: tuple[str, ...]) -> None:
    """Refuse a question whose parts contradict each other.

    Args:
        question: the question.
        training: the training recipes that the user named.

    Raises:
        UsageError: the wrong option, and what to do about it.
    """
    _refuse_for_task(question, training)
    if question.data is None:
        _refuse_without_data(question, training)
    elif NONE in training:
        raise UsageError(
            "--training none cannot be combined with --data",
            f"take {', '.join(name for name in question.of_task.trainings if name != NONE)}, or leave --data out",
        )
    if question.tune_training and not any(recipe_of(name).tunes_backbone for name in question.trainings):
        raise UsageError(
            f"--tune-training: {question.tune_training} trials of fine-tuning, and nothing is fine-tuned",
            "add --training finetune_top, or leave --tune-training out",
        )


def _refuse_for_task(question: Question, training: tuple[str, ...]) -> None:
    """Refuse what the task does not have."""
    task, option = question.of_task, f"--task {question.task}"
    if not task.published and question.data is None:
        raise UsageError(f"{option} needs --data: no card has a published {task.metric}", "add --data DIR")
    for name in training:
        if name not in task.trainings:
            valid = ", ".join(task.trainings)
            raise UsageError(f"--training: '{name}' is not for {option}", f"one of: {valid}; or leave it out")
    for asked in () if task.probabilities else question.guarantees.options:
        raise UsageError(f"{asked}: models for {option} have no probability of a class", f"leave {asked} out")
    if question.unknown is not None and not task.probabilities:
        raise UsageError(
            f"--unknown: models for {option} have no probability of a class",
            "leave --unknown out; images without an object may be part of --data",
        )
    if question.tune_training and not task.tunable:
        raise UsageError(
            f"--tune-training: fine-tuning for {option} has fixed hyperparameters", "leave --tune-training out"
        )
    if question.robust and not task.conditions:
        raise UsageError(
            f"--objective: robust accuracy is not for {option}", "leave --objective out: images are scored as they are"
        )


def _refuse_without_data(question: Question, training: tuple[str, ...]) -> None:
    for name in training:
        if recipe_of(name).learns:
            raise UsageError(
                f"--training: '{name}' learns from images, and --data is not given",
                "add --data DIR (one sub-folder for each class), or leave --training out",
            )
    if question.robust:
        raise UsageError(
            "--objective: robust accuracy is measured on images, and --data is not given",
            "add --data DIR (one sub-folder for each class), or leave --objective out",
        )
    for asked in question.guarantees.options:
        raise UsageError(
            f"{asked}: the threshold is chosen on images, and --data is not given",
            f"add --data DIR, or leave {asked} out",
        )
    if question.unknown is not None:
        raise UsageError(
            "--unknown: its images are compared with those of your classes, and --data is not given",
            "add --data DIR, or leave --unknown out",
        )
    if question.limits.max_drop_points is not None:
        raise UsageError(
            "--max-drop: the drop is measured on images, and --data is not given",
            "add --data DIR, or leave --max-drop out",
        )


def validate_execution(execution: Execution) -> None:
    """Refuse an execution whose parts contradict each other.

    Raises:
        UsageError: the wrong option, and what to do about it.
    """
    if execution.stop_below and execution.sampler != ADVISOR:
        raise UsageError(
            f"--stop-below needs --sampler advisor, not '{execution.sampler}'",
            "leave --stop-below out, or take --sampler advisor",
        )
    if execution.workers > MOST_WORKERS:
        raise UsageError(f"--workers: {execution.workers} is more than {MOST_WORKERS}", "write for example --workers 2")
    folder = execution.shared_folder
    if folder is None:
        return
    if execution.executor == LOCAL:
        raise UsageError(
            "--shared-folder: the local executor uses no other machines", "add --executor ray, or leave it out"
        )
    if not folder.is_dir():
        raise UsageError(
            f"--shared-folder: '{folder}' is not a folder on this machine",
            "name a folder that this machine and every node of the cluster see under the same name",
        )


def require_sampler_installed(name: str) -> None:
    """Refuse a sampler whose library is not installed, without importing it.

    Raises:
        UsageError: the library is missing.
    """
    if name == GP and find_spec("torch") is None:
        raise UsageError(
            "--sampler: 'gp' is Optuna's Gaussian process, which needs PyTorch, and PyTorch is not installed",
            f"{install_extra('gp')}, or use --sampler advisor",
        )


SHARES, COVERAGES = (0.5, 0.995), (0.01, 0.995)
"""Least and largest share of ``--min-precision`` and ``--min-recall``, and of ``--min-coverage``."""

PRECISION, RECALL, COVERAGE = "--min-precision", "--min-recall", "--min-coverage"


def parse_guarantees(precision: Sequence[str], recall: Sequence[str], coverage: str) -> Guarantees:
    """Return what the user asks of thresholds.

    Args:
        precision: texts such as ``95%``, ``trash=90%`` or ``95%,trash=90%``.
        recall: as ``precision``.
        coverage: a text such as ``80%``; empty for no wish.

    Raises:
        UsageError: no share with its unit, one that cannot be guaranteed, or two for one class.
    """
    return Guarantees(
        _shares(precision, PRECISION),
        _shares(recall, RECALL),
        units.share(coverage, COVERAGE, COVERAGES, _hint(COVERAGE, "80%")) if coverage else None,
    )


def require_classes(guarantees: Guarantees, classes: Sequence[str]) -> None:
    """Refuse a guarantee for a class that the images do not have.

    Raises:
        UsageError: there is no such class.
    """
    for option, shares in ((PRECISION, guarantees.precision), (RECALL, guarantees.recall)):
        for name in shares.by_class:
            if name not in classes:
                raise UsageError(
                    f"{option}: unknown class '{name}'{nearest(name, classes)}", f"classes: {units.listed(classes, 20)}"
                )


def _shares(texts: Sequence[str], option: str) -> Shares:
    """Return the shares of an option.

    Texts are divided at commas after a percent sign. A class's name is what stands before the last ``=``, so that it
    may hold both characters.
    """
    found: dict[str | None, float] = {}
    for text in (part.strip() for each in texts for part in re.split(r"(?<=%)\s*,", each) if part.strip()):
        name, separator, written = text.rpartition("=")
        key = name.strip() if separator else None
        share = units.share(written.strip(), option, SHARES, _hint(option, "95%"))
        if key in found:
            twice = "a share for all classes" if key is None else f"a share for '{key}'"
            raise UsageError(f"{option}: {twice} is given twice", "leave one of them out")
        found[key] = share
    return Shares(found.pop(None, None), {name: share for name, share in found.items() if name is not None})


def _hint(option: str, example: str) -> str:
    return f"nothing can be guaranteed for all images: write for example {option} {example}"
