"""What a question may ask: its options alone and together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core.errors import UsageError, nearest
from advisor.core.training import CHOOSABLE, FINETUNED, HEAD, NONE
from advisor.engine.execution import LOCAL, kind_of
from advisor.engine.scheduling.samplers import ADVISOR, SAMPLERS
from advisor.engine.scheduling.storage import checked

if TYPE_CHECKING:
    from advisor.engine.question import Request

TASKS = ("image-classification",)
ROBUST = "robust-accuracy"
OBJECTIVES = ("accuracy", ROBUST)
MOST_WORKERS = 1000


def validate(request: Request) -> None:
    """Refuse a question whose options contradict each other or name what there is not.

    Raises:
        UsageError: the option, its value, and the nearest valid one.
    """
    _one_of("--task", request.task, TASKS)
    _one_of("--sampler", request.sampler, SAMPLERS)
    limits, _ = request.limits, request.preference
    _ = request.time_limit_s
    _ = checked(request.storage)
    _validate_executor(request)
    if request.least_gain(0) is not None and request.sampler != ADVISOR:
        raise UsageError(
            f"--stop-below: the sampler '{request.sampler}' does not say what more would gain",
            "leave it out, or take --sampler advisor",
        )
    _validate_training(request)
    _one_of("--objective", request.objective, OBJECTIVES)
    if request.objective == ROBUST and not request.data:
        raise UsageError(
            "--objective: robust accuracy is measured on pictures, and --data is not given",
            "add --data DIR (one sub-folder a class), or leave --objective out",
        )
    if limits.max_drop_points is not None and not request.data:
        raise UsageError(
            "--max-drop: the drop is measured on pictures, and --data is not given",
            "add --data DIR, or leave --max-drop out",
        )


def _validate_executor(request: Request) -> None:
    kind = kind_of(request.executor)
    if request.workers > MOST_WORKERS:
        raise UsageError(f"--workers: {request.workers} is more than {MOST_WORKERS}", "write for example --workers 2")
    if not request.shared_folder:
        return
    if kind == LOCAL:
        raise UsageError(
            "--shared-folder: the local executor has no other machines", "add --executor ray, or leave it out"
        )
    if not Path(request.shared_folder).is_dir():
        raise UsageError(
            f"--shared-folder: '{request.shared_folder}' is no folder here",
            "name a folder that this machine and every node of the cluster see under the same name",
        )


def _validate_training(request: Request) -> None:
    for name in request.training:
        _one_of("--training", name, CHOOSABLE)
        if name != NONE and not request.data:
            raise UsageError(
                f"--training: '{name}' learns from pictures, and --data is not given",
                "add --data DIR (one sub-folder a class), or leave --training out",
            )
        if name == NONE and request.data:
            raise UsageError(
                "--training: 'none' keeps ImageNet's classes, and --data has its own",
                f"take {HEAD}, {', '.join(FINETUNED)}, or leave --data out",
            )

    if request.tune_training and not set(request.training) & set(FINETUNED):
        raise UsageError(
            f"--tune-training: {request.tune_training} fine-tunings a card, and nothing is fine-tuned",
            "add --training finetune_top, or leave --tune-training out",
        )


def _one_of(option: str, value: str, valid: tuple[str, ...]) -> None:
    if value not in valid:
        raise UsageError(f"{option}: unknown '{value}'{nearest(value, valid)}", f"one of: {', '.join(valid)}")
