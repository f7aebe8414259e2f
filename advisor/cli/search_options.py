"""Options of ``advisor search`` and ``advisor plan``, in the order and the groups of their help."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperOption
from typer.models import OptionInfo

from advisor.cli import completion
from advisor.cli.options import split

if TYPE_CHECKING:  # Typer 0.29 brings its own copy of Click; older ones import it.
    from typer._click.core import Context, Parameter
    from typer._click.formatting import HelpFormatter

Command = Callable[..., None]

QUESTION = "Question"
CANDIDATES = "Candidates"
TRAINING = "Training and compression"
DEVICES = "Devices"
RUNNING = "Running"
OUTPUT = "Output"
PANELS = (QUESTION, CANDIDATES, TRAINING, DEVICES, RUNNING, OUTPUT)


def _value(panel: str, metavar: str, text: str, kind: Any = str) -> Any:
    """Return the annotation of an option that is None if not given; one with a list may be repeated."""
    return Annotated[kind | None, typer.Option(metavar=metavar, help=text, rich_help_panel=panel)]


def _names(panel: str, metavar: str, text: str) -> Any:
    """Return the annotation of an option that may be repeated, or joined by commas."""
    named = typer.Option(metavar=metavar, help=text, rich_help_panel=panel, callback=split)
    return Annotated[list[str] | None, named]


def _flag(panel: str, name: str, text: str) -> Any:
    """Return the annotation of an option without a value."""
    return Annotated[bool | None, typer.Option(name, help=text, rich_help_panel=panel)]


def _completed(name: str, annotation: Any) -> Any:
    """Return the annotation of an option whose names a shell completes."""
    (told,) = (each for each in annotation.__metadata__ if isinstance(each, OptionInfo))
    told.autocompletion = completion.runs if name == "resume" else completion.of(name)
    return annotation


_DECLARED: Mapping[str, Any] = {
    "task": _value(
        QUESTION,
        "TASK",
        "Task; object-detection and object-counting need images with boxes. Default: image-classification.",
    ),
    "data": _value(
        QUESTION, "PATH", "Labelled images: a folder with one sub-folder for each class, or a CSV or Parquet manifest."
    ),
    "unknown": _value(
        QUESTION, "DIR", "Folder of images of things outside your classes, to see how the pick answers them."
    ),
    "budget": _value(QUESTION, "TIME", "Latency limit that 9 of 10 runs meet, such as 50ms."),
    "size_budget": _value(QUESTION, "SIZE", "Limit of the file size, such as 5MB."),
    "memory_budget": _value(QUESTION, "SIZE", "Limit of the peak memory, such as 50MB."),
    "max_drop": _value(QUESTION, "POINTS", "Points of accuracy that compression may cost, such as 1pt."),
    "min_accuracy": _value(
        QUESTION, "PERCENT", "Lowest accuracy, such as 85%, or lowest value of another metric: worst-group=70%. Join "
        "by commas, or repeat.", list[str],
    ),
    "min_precision": _value(
        QUESTION, "SHARES", "Share of right answers among those that reach the threshold in the file, such as 95%; for "
        "the answers of one class: trash=90%. Join by commas, or repeat. Default: no threshold.", list[str],
    ),
    "min_recall": _value(
        QUESTION, "SHARES", "Share of the images of a class whose probability of that class reaches a threshold: "
        "trash=90%, or 90% for every class. Join by commas, or repeat. Default: no threshold.", list[str],
    ),
    "min_coverage": _value(
        QUESTION, "PERCENT", "Share of the images that reach the threshold in the file, such as 80%. Default: no "
        "threshold."
    ),
    "metric": _value(
        QUESTION, "NAME", "Metric used as accuracy: top1, balanced-accuracy, macro-f1, top5, log-loss, cost-saved or "
        "worst-group. Default: top1.",
    ),
    "costs": _value(
        QUESTION, "FILE", "CSV with the cost of each answer (columns) to images of each class (rows). Without "
        "--metric, the metric is cost-saved.",
    ),
    "confidence": _value(QUESTION, "PERCENT", "Probability that a predicted latency meets the budget. Default: 90%."),
    "objective": _value(
        QUESTION, "NAME", "Accuracy to compare: accuracy, or robust-accuracy (bad light, motion, ...). "
        "Default: accuracy.",
    ),
    "prefer": _value(
        QUESTION, "NAME", "Preference: balanced, accuracy, latency, size, or weights: accuracy=2,latency=1. "
        "Default: balanced.",
    ),
    "licence": _value(QUESTION, "NAMES", "Accepted licences: permissive, SPDX identifiers, or both joined by commas."),
    "request": _value(
        QUESTION, "FILE", "YAML file with the same keys as these options. The command line takes precedence."
    ),
    "candidates": _names(
        CANDIDATES, "NAMES", "Models: names, families or globs ('mobilenet_v2_*'), or the path of a .tflite that you "
        "ship; repeat, or join by commas. Default: the 12 most promising models with weights.",
    ),
    "catalog": _value(CANDIDATES, "FILE", "Catalogue file of your own (YAML); repeat for more.", list[str]),
    "mirror": _value(CANDIDATES, "PLACE", "Folder or address of weights that is asked first."),
    "training": _names(
        TRAINING, "NAMES", "Training recipes: head, finetune_cached, finetune_top, finetune_all; repeat, or join by "
        "commas. Default with --data: head, then finetune_cached on the most promising models for a limited time.",
    ),
    "tune_training": _value(
        TRAINING, "N", "Run N Optuna trials of fine-tuning for each model and keep the best. Default: 0.", int
    ),
    "compressions": _names(
        TRAINING, "NAMES", "Compression recipes: float32, int8, ...; repeat, or join by commas. "
        "Default: five recipes without retraining.",
    ),
    "device": _value(
        DEVICES, "NAMES", "Devices that run the model: host, or device profiles joined by commas (device:target). "
        "Default: host.",
    ),
    "must_run_on": _names(
        DEVICES, "NAMES", "Further devices on which the pick must meet the budget; repeat, or join by commas."
    ),
    "profiles": _value(DEVICES, "DIR", "Folder of your own device profiles; repeat for more.", list[str]),
    "threads": _names(
        DEVICES, "COUNTS", "CPU threads to measure: a number or 'all'; repeat, or join by commas. Default: 1,all."
    ),
    "sampler": _value(RUNNING, "NAME", "Order of the search: advisor, tpe, nsga2, gp or random. Default: advisor."),
    "seed": _value(RUNNING, "N", "Seed of the split, of training and of the sampler. Default: 0.", int),
    "time_limit": _value(
        RUNNING, "TIME", "Stop after this time with the best result so far, such as 10min. Default: no limit."
    ),
    "max_trials": _value(RUNNING, "N", "Stop after N configurations. Default: no limit.", int),
    "stop_below": _value(
        RUNNING, "SHARE", "Stop when one more hour is expected to add less than this share of the front: 0.5%, or "
        "never. Default: 0.5% from 100 configurations on.",
    ),
    "capture": _value(
        RUNNING, "NAME", "Finalists that run under capture conditions: first (pick and runner-up) or all. "
        "Default: first.",
    ),
    "executor": _value(
        RUNNING, "PLACE", "Executor of the work: local, ray, or ray://host:10001 (a Ray cluster). Default: local."
    ),
    "workers": _value(RUNNING, "N", "Largest number of jobs at the same time. Default: one per core.", int),
    "shared_folder": _value(
        RUNNING, "DIR", "Folder that all nodes of a Ray cluster see under the same name. Default: files are sent."
    ),
    "storage": _value(
        RUNNING, "PLACE", "Storage of the Optuna study: journal, sqlite, or postgresql://user@host/database. "
        "Default: journal.",
    ),
    "remeasure": _flag(RUNNING, "--remeasure", "Time models again that were timed on this machine before."),
    "offline": _flag(RUNNING, "--offline", "Open no connection."),
    "resume": _value(RUNNING, "RUN", "Continue a run that was stopped, such as runs/latest."),
    "extend": _value(RUNNING, "TIME", "With --resume: continue for this time, such as 30min."),
    "out": _value(OUTPUT, "DIR", "Folder that takes the run. Default: runs."),
}  # fmt: skip
SEARCH_OPTIONS: Mapping[str, Any] = {name: _completed(name, kind) for name, kind in _DECLARED.items()}
PLAN_OPTIONS = {name: kind for name, kind in SEARCH_OPTIONS.items() if name not in ("resume", "extend")}
LIMITS = {
    name: SEARCH_OPTIONS[name]
    for name in (
        "budget", "size_budget", "memory_budget", "max_drop", "min_accuracy", "licence", "must_run_on", "profiles",
    )
}  # fmt: skip


def described_options() -> dict[str, dict[str, str]]:
    """Return the help text of each option of a search by its name, by the title of its group."""
    groups: dict[str, dict[str, str]] = {panel: {} for panel in PANELS}
    for name, annotation in PLAN_OPTIONS.items():
        (told,) = (each for each in annotation.__metadata__ if isinstance(each, OptionInfo))
        groups[told.rich_help_panel or OUTPUT][name] = told.help or ""
    return groups


def takes(options: Mapping[str, Any]) -> Callable[[Command], Command]:
    """Declare options of a command before its own; the command receives them as keyword arguments.

    Args:
        options: the annotation of each option by its name. The default of each is None.
    """

    def declare(command: Command) -> Command:
        kind = inspect.Parameter.KEYWORD_ONLY
        shared = [inspect.Parameter(name, kind, default=None, annotation=each) for name, each in options.items()]
        declared = inspect.signature(command, eval_str=True).parameters.values()
        own = [each for each in declared if each.kind is not inspect.Parameter.VAR_KEYWORD]
        parameters = sorted([*shared, *own], key=lambda each: each.kind)  # arguments come before options
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return command

    return declare


class GroupedCommand(TyperCommand):
    """A command whose plain help shows each ``rich_help_panel`` under its own heading, in the order of ``PANELS``."""

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write the options of each group; an option without a group belongs to the output."""
        for panel in PANELS:
            options = [option for option in self.get_params(ctx) if _panel(option) == panel]
            rows = [record for option in options if (record := option.get_help_record(ctx))]
            if rows:
                with formatter.section(panel):
                    formatter.write_dl(rows)


def _panel(option: Parameter) -> str:
    named = option.rich_help_panel if isinstance(option, TyperOption | TyperArgument) else None
    return named or OUTPUT
