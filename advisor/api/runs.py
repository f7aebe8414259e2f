"""Search and plan."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.api.run import Run
from advisor.store import RunFolder

if TYPE_CHECKING:
    from advisor.engine.question import Request
    from advisor.engine.space.forecast import PlanView


def search(
    *,
    task: str | None = None,
    data: str | Path | None = None,
    unknown: str | Path | None = None,
    budget: str | None = None,
    size_budget: str | None = None,
    memory_budget: str | None = None,
    max_drop: str | None = None,
    min_accuracy: str | Sequence[str] | None = None,
    min_precision: str | Sequence[str] | None = None,
    min_recall: str | Sequence[str] | None = None,
    min_coverage: str | None = None,
    metric: str | None = None,
    costs: str | Path | None = None,
    confidence: str | None = None,
    objective: str | None = None,
    prefer: str | None = None,
    licence: str | None = None,
    request: str | Path | None = None,
    candidates: Sequence[str] | None = None,
    catalog: Sequence[str | Path] | None = None,
    mirror: str | Path | None = None,
    training: Sequence[str] | None = None,
    tune_training: int | None = None,
    compressions: Sequence[str] | None = None,
    device: str | None = None,
    must_run_on: Sequence[str] | None = None,
    profiles: Sequence[str | Path] | None = None,
    threads: Sequence[int | str] | None = None,
    sampler: str | None = None,
    seed: int | None = None,
    time_limit: str | None = None,
    max_trials: int | None = None,
    stop_below: str | None = None,
    capture: str | None = None,
    executor: str | None = None,
    workers: int | None = None,
    shared_folder: str | Path | None = None,
    storage: str | None = None,
    remeasure: bool | None = None,
    offline: bool | None = None,
    resume: str | Path | None = None,
    extend: str | None = None,
    out: str | Path | None = None,
    verbose: bool = False,
    quiet: bool = False,
) -> Run:
    """Find the model to ship: evaluate candidates under a budget and recommend one with its reasons.

    Every option is optional. Precedence: argument, request file, default.

    ::

        import advisor
        run = advisor.search(budget="50ms", data="photos")
        print(run.decision.reason, run.report)

    Args:
        task: ``image-classification``, ``object-detection`` or ``object-counting``. Default: ``image-classification``.
        data: labelled images: a folder with one sub-folder for each class, or a CSV or Parquet manifest.
        unknown: folder of images of things that are none of the classes, to see how they are answered.
        budget: latency limit (90th percentile), such as ``50ms``.
        size_budget: limit of the file size, such as ``5MB``.
        memory_budget: limit of the peak private memory, such as ``100MB``.
        max_drop: percentage points of accuracy that compression may cost, such as ``1pt``.
        min_accuracy: lowest accuracy, such as ``85%``, or of another metric, such as ``worst-group=70%``; several are
            a list, or joined by commas.
        min_precision: share of right answers that the threshold in the shipped file promises, such as ``95%``; for the
            answers of one class ``trash=90%``; several in a list, or joined by commas. Answers below the threshold are
            left to a person. Default: no threshold in the file.
        min_recall: share of the images of a class whose probability of that class reaches a threshold, written as
            ``min_precision``; a share without a name is for every class. Default: no such thresholds.
        min_coverage: share of the images that have an answer from the threshold in the shipped file on, such as
            ``80%``. Default: no such threshold.
        metric: what accuracy is: ``top1``, ``balanced-accuracy``, ``macro-f1``, ``top5``, ``log-loss``,
            ``cost-saved`` or ``worst-group``. Default: ``top1``.
        costs: CSV file with the cost of each answer (columns) to images of each class (rows). Without ``metric``, the
            share of the cost that is saved counts.
        confidence: probability with which a predicted latency must meet the budget. Default: ``90%``.
        objective: accuracy that is compared: ``accuracy``, or ``robust-accuracy`` (mean over bad light, motion and
            other capture conditions). Default: ``accuracy``.
        prefer: preference among the candidates that meet the budget: ``balanced``, ``accuracy``, ``latency``,
            ``size``, or weights such as ``accuracy=2,latency=1``. Default: ``balanced``.
        licence: accepted licences: ``permissive``, SPDX identifiers, or both joined by commas. Default: all.
        request: YAML file with the same keys. Arguments take precedence.
        candidates: names, families or globs of model cards, or the path of a ``.tflite`` classifier that you ship. It
            takes part as it is. Default: the 12 most promising cards with weights, also beside files alone.
        catalog: your own catalogue files (YAML).
        mirror: folder or address of weights that is asked first.
        training: training recipes: ``head``, ``finetune_cached``, ``finetune_top``, ``finetune_all``. Default with
            ``data``: ``head``, then ``finetune_cached`` on the most promising models for a limited time.
        tune_training: number of Optuna trials of fine-tuning for each model. Default: 0, the recipe's own
            hyperparameters.
        compressions: compression recipes such as ``float32`` or ``int8``. Default: five recipes.
        device: devices that run the model: ``host``, or device profiles joined by commas (``device:target``).
            Default: ``host``.
        must_run_on: further devices on which the pick must meet the latency budget.
        profiles: folders of your own device profiles.
        threads: CPU thread counts to measure: numbers, or ``all``. Default: 1 and all cores.
        sampler: order of the search: ``advisor``, ``tpe``, ``nsga2``, ``gp`` (needs PyTorch) or ``random``.
            Default: ``advisor``.
        seed: seed of the split, of training and of the sampler. Default: 0.
        time_limit: stop after this time with the best result so far, such as ``10min``. Default: no limit.
        max_trials: stop after this number of configurations. Default: 0, no limit.
        stop_below: stop when one more hour is expected to add less than this share of the front's hypervolume, such
            as ``0.5%``, or ``never``. Default: 0.5 % if there are 100 configurations or more.
        capture: finalists that run under capture conditions: ``first`` (pick and runner-up) or ``all`` (one file of
            each network; always so with the objective ``robust-accuracy``). Default: ``first``.
        executor: where the work runs: ``local``, ``ray`` or ``ray://host:10001``. Default: ``local``.
        workers: largest number of jobs at the same time. Default: 0, one for each core.
        shared_folder: folder that all nodes of a Ray cluster see under the same name. Default: files are sent.
        storage: storage of the Optuna study: ``journal`` or ``sqlite`` in the run folder, or
            ``postgresql://user@host/database``. Default: ``journal``.
        remeasure: time models again that were timed on this machine before.
        offline: open no connection.
        resume: folder of a run to continue with its own options. Failed configurations are tried again.
        extend: continue for this time, such as ``30min``. Needs ``resume``.
        out: folder that takes the run. Default: ``runs``.
        verbose: show the output of the libraries instead of writing it to ``log.txt``.
        quiet: show no progress. Without it, standard error gets a bar, or lines if it is not a terminal.

    Raises:
        UsageError: an option, the images or the output folder is invalid. Nothing was spent.
        WeightsError: none of the candidates has weights that can be fetched.
    """
    arguments = dict(locals())
    _import_optuna()

    from advisor.engine.display import display
    from advisor.engine.history.diagnoses import diagnose_run
    from advisor.engine.progress import Progress
    from advisor.engine.run import run_search
    from advisor.reporting.files import write_all
    from advisor.reporting.phrases import so_far
    from advisor.reporting.view import load_view

    def answer(run: RunFolder) -> str:
        view = load_view(run, running=True)
        write_all(view, run.path)
        return so_far(view)

    folder = Path(resume) if resume is not None else None
    with Progress(None if quiet else display(), answer) as progress:
        outcome = run_search(_request(arguments), progress, folder, verbose)
        if outcome.stop.why != "interrupt":
            progress.say("finding where compressed forms lose accuracy")
            diagnose_run(outcome.run)
        progress.say("writing the report")
        run = Run(outcome.run.path, outcome.stop.why == "interrupt", outcome.stop.text if outcome.stop.early else "")
        write_all(run.view, run.path)
    return run


def _import_optuna() -> None:
    """Import Optuna without the warning of its progress bar, which misses widgets in a notebook and is not used."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "IProgress not found")
        import_module("optuna")


def plan(
    *,
    task: str | None = None,
    data: str | Path | None = None,
    unknown: str | Path | None = None,
    budget: str | None = None,
    size_budget: str | None = None,
    memory_budget: str | None = None,
    max_drop: str | None = None,
    min_accuracy: str | Sequence[str] | None = None,
    min_precision: str | Sequence[str] | None = None,
    min_recall: str | Sequence[str] | None = None,
    min_coverage: str | None = None,
    metric: str | None = None,
    costs: str | Path | None = None,
    confidence: str | None = None,
    objective: str | None = None,
    prefer: str | None = None,
    licence: str | None = None,
    request: str | Path | None = None,
    candidates: Sequence[str] | None = None,
    catalog: Sequence[str | Path] | None = None,
    mirror: str | Path | None = None,
    training: Sequence[str] | None = None,
    tune_training: int | None = None,
    compressions: Sequence[str] | None = None,
    device: str | None = None,
    must_run_on: Sequence[str] | None = None,
    profiles: Sequence[str | Path] | None = None,
    threads: Sequence[int | str] | None = None,
    sampler: str | None = None,
    seed: int | None = None,
    time_limit: str | None = None,
    max_trials: int | None = None,
    stop_below: str | None = None,
    capture: str | None = None,
    executor: str | None = None,
    workers: int | None = None,
    shared_folder: str | Path | None = None,
    storage: str | None = None,
    remeasure: bool | None = None,
    offline: bool | None = None,
    out: str | Path | None = None,
) -> PlanView:
    """Return what a search with the same options would do and cost. Nothing is spent, no connection is opened.

    ::

        import advisor
        view = advisor.plan(budget="50ms", data="photos", time_limit="10min")
        print(view.price_s, [forecast.configuration.key for forecast in view.forecasts])

    Args:
        task: this option and all others are those of :func:`search`.

    Raises:
        UsageError: an option or the images are invalid, as in :func:`search`.
    """
    arguments = dict(locals())

    from advisor.engine.preview import preview

    return preview(_request(arguments))


def _request(arguments: Mapping[str, Any]) -> Request:
    """Return the request of a new run, or of one that continues.

    Args:
        arguments: those of :func:`search` or :func:`plan`, by name.

    Raises:
        UsageError: as :func:`search`.
    """
    from advisor.core.errors import UsageError
    from advisor.engine.history.inputs import located
    from advisor.engine.history.loaded_run import stored_request
    from advisor.engine.question import FREE_ON_RESUME, QUESTION_OPTIONS, resolve, resolve_resumed
    from advisor.engine.space.prepared import with_files

    options = {name: arguments[name] for name in (*QUESTION_OPTIONS, *FREE_ON_RESUME)}
    file = Path(arguments["request"]) if arguments["request"] else None
    resume, extend = arguments.get("resume"), arguments.get("extend")
    if resume is not None:
        run = RunFolder.open(Path(resume))
        return located(resolve_resumed(stored_request(run), options, file, extend), run)
    if extend is not None:
        raise UsageError("--extend continues a run, and --resume names none", "add --resume runs/latest")
    return with_files(resolve(options, file))
