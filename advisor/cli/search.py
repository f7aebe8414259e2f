"""``advisor search``: find the model to ship."""

from __future__ import annotations

from typing import Annotated

import typer

from advisor.cli import limits
from advisor.cli import search_options as options
from advisor.cli.options import split
from advisor.cli.panels import OUTPUT, GroupedCommand
from advisor.core.exits import ExitCode

Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Show the output of the libraries.", rich_help_panel=OUTPUT)
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("search", cls=GroupedCommand, short_help="Find the model to ship.")(search)


def search(
    task: options.Task = None,
    data: options.Data = None,
    budget: limits.Budget = None,
    size_budget: limits.SizeBudget = None,
    memory_budget: limits.MemoryBudget = None,
    max_drop: limits.MaxDrop = None,
    min_accuracy: limits.MinAccuracy = None,
    confidence: options.Confidence = None,
    objective: options.Objective = None,
    prefer: options.Prefer = None,
    licence: limits.Licence = None,
    request: options.RequestFile = None,
    candidates: options.Candidates = None,
    catalog: options.Catalog = None,
    mirror: options.Mirror = None,
    training: options.Training = None,
    tune_training: options.TuneTraining = None,
    compressions: options.Compressions = None,
    device: options.Device = None,
    must_run_on: limits.MustRunOn = None,
    profiles: limits.ProfileFolders = None,
    threads: options.Threads = None,
    sampler: options.Sampler = None,
    seed: options.Seed = None,
    time_limit: options.TimeLimit = None,
    max_trials: options.MaxTrials = None,
    stop_below: options.StopBelow = None,
    executor: options.Executor = None,
    workers: options.Workers = None,
    shared_folder: options.SharedFolder = None,
    storage: options.Storage = None,
    remeasure: options.Remeasure = None,
    offline: options.Offline = None,
    resume: options.Resume = None,
    extend: options.Extend = None,
    out: options.Out = None,
    verbose: Verbose = False,
) -> None:
    """Find the model to ship: evaluate candidates under a budget and recommend one with its reasons.

    With --data, each candidate is retrained on your images, and every file is scored on images that were held out.
    Without --data, published accuracies are quoted. Latency, memory and size are measured on this machine.

    Example: advisor search --budget 50ms --data photos/
    """
    from advisor import api
    from advisor.reporting.table import print_answer

    run = api.search(
        task=task, data=data, budget=budget, size_budget=size_budget, memory_budget=memory_budget,
        max_drop=max_drop, min_accuracy=min_accuracy, confidence=confidence, objective=objective, prefer=prefer,
        licence=licence, request=request, candidates=split(candidates), catalog=catalog, mirror=mirror,
        training=split(training), tune_training=tune_training, compressions=split(compressions), device=device,
        must_run_on=split(must_run_on), profiles=profiles, threads=split(threads), sampler=sampler, seed=seed,
        time_limit=time_limit, max_trials=max_trials, stop_below=stop_below, executor=executor, workers=workers,
        shared_folder=shared_folder, storage=storage, remeasure=remeasure, offline=offline, out=out, resume=resume,
        extend=extend, verbose=verbose,
    )  # fmt: skip
    print_answer(run.view)
    if run.interrupted:
        typer.echo(f"interrupted; continue with: advisor search --resume {run.path}", err=True)
        raise typer.Exit(ExitCode.INTERRUPTED)
    if run.stopped:
        typer.echo(f"{run.stopped}; continue with: advisor search --resume {run.path} --extend 30min", err=True)
    if not run.decision.feasible:
        raise typer.Exit(ExitCode.UNSATISFIED)
