"""``advisor plan``: what a search would do, and what it would take."""

from __future__ import annotations

from typing import Annotated

import typer

from advisor.cli import limits
from advisor.cli import search_options as options
from advisor.cli.options import split
from advisor.cli.output import print_json
from advisor.cli.panels import OUTPUT, GroupedCommand

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.", rich_help_panel=OUTPUT)]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("plan", cls=GroupedCommand, short_help="Show what a search would do, and its price.")(plan)


def plan(
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
    out: options.Out = None,
    as_json: AsJson = False,
) -> None:
    """Show what a search with the same options would do, and its price. Nothing is spent, no connection is opened.

    The table has a row for each candidate: its estimated latency, the probability that it meets the budget, its size,
    published accuracy and price in seconds. It also says which candidates are filtered and why, and which weights are
    on this machine.

    Example: advisor plan --budget 50ms --data photos/ --time-limit 10min
    """
    from advisor import api

    view = api.plan(
        task=task, data=data, budget=budget, size_budget=size_budget, memory_budget=memory_budget,
        max_drop=max_drop, min_accuracy=min_accuracy, confidence=confidence, objective=objective, prefer=prefer,
        licence=licence, request=request, candidates=split(candidates), catalog=catalog, mirror=mirror,
        training=split(training), tune_training=tune_training, compressions=split(compressions), device=device,
        must_run_on=split(must_run_on), profiles=profiles, threads=split(threads), sampler=sampler, seed=seed,
        time_limit=time_limit, max_trials=max_trials, stop_below=stop_below, executor=executor, workers=workers,
        shared_folder=shared_folder, storage=storage, remeasure=remeasure, offline=offline, out=out,
    )  # fmt: skip
    if as_json:
        print_json(view.to_json())
        return
    from advisor.reporting.plan_table import print_plan

    print_plan(view)
