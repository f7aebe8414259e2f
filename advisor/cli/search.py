"""``advisor search``: find the model to ship."""

from __future__ import annotations

from typing import Annotated

import typer

NOTHING_FITS, INTERRUPTED = 3, 130


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("search")(search)


def search(
    task: Annotated[str | None, typer.Option(help="What the model is to do: image-classification.")] = None,
    budget: Annotated[str | None, typer.Option(help="Latency limit, met by 9 of 10 runs, such as 50ms.")] = None,
    size_budget: Annotated[str | None, typer.Option(help="Limit of the file's size, such as 5MB.")] = None,
    memory_budget: Annotated[str | None, typer.Option(help="Limit of the peak memory, such as 50MB.")] = None,
    max_drop: Annotated[
        str | None,
        typer.Option(help="Points of accuracy that compression may cost, such as 1pt."),
    ] = None,
    min_accuracy: Annotated[str | None, typer.Option(help="Least top-1 accuracy, such as 85%.")] = None,
    data: Annotated[
        str | None,
        typer.Option(help="Folder of labelled pictures, one sub-folder a class."),
    ] = None,
    device: Annotated[str | None, typer.Option(help="Where the model is to run: host.")] = None,
    candidates: Annotated[
        list[str] | None,
        typer.Option(help="Names, families or globs of models ('mobilenet_v2_*'); repeat, or join by commas."),
    ] = None,
    compressions: Annotated[
        list[str] | None, typer.Option(help="Compression recipes: float32, int8, ...; repeat, or join by commas.")
    ] = None,
    threads: Annotated[
        list[str] | None,
        typer.Option(help="CPU threads to measure with: a number or 'all'; repeat, or join by commas."),
    ] = None,
    catalog: Annotated[list[str] | None, typer.Option(help="Your own catalogue file (YAML); repeat for more.")] = None,
    sampler: Annotated[str | None, typer.Option(help="Order of the search: advisor, tpe, nsga2 or random.")] = None,
    time_limit: Annotated[
        str | None, typer.Option(help="Stop with the best answer so far after, such as 10min.")
    ] = None,
    max_trials: Annotated[int | None, typer.Option(help="Evaluate at most so many configurations.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the split, of training and of the order. Default 0.")
    ] = None,
    out: Annotated[str | None, typer.Option(help="Folder that takes the run. Default: runs.")] = None,
    resume: Annotated[str | None, typer.Option(help="Go on with an interrupted run, such as runs/latest.")] = None,
    request: Annotated[str | None, typer.Option(help="YAML file with the same keys as these options.")] = None,
    offline: Annotated[bool | None, typer.Option("--offline", help="Never open a connection.")] = None,
    mirror: Annotated[str | None, typer.Option(help="Folder or address that holds weights, asked first.")] = None,
    remeasure: Annotated[
        bool | None, typer.Option("--remeasure", help="Time again what was timed on this machine before.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show the libraries' own output.")] = False,
) -> None:
    """Find the model to ship: evaluate candidates under a budget, and recommend one with its reasons.

    With --data, each candidate is retrained on your pictures and every file is scored on a part of them that was kept
    aside. Without, published accuracies are quoted. Latency, memory and size are measured on this machine.

    Example: advisor search --budget 50ms --data photos/
    """
    from advisor import api
    from advisor.report.table import print_answer

    run = api.search(
        resume=resume,
        verbose=verbose,
        task=task,
        budget=budget,
        size_budget=size_budget,
        memory_budget=memory_budget,
        max_drop=max_drop,
        min_accuracy=min_accuracy,
        data=data,
        device=device,
        candidates=_split(candidates),
        compressions=_split(compressions),
        threads=_split(threads),
        catalog=catalog,
        sampler=sampler,
        time_limit=time_limit,
        max_trials=max_trials,
        seed=seed,
        out=out,
        request=request,
        offline=offline,
        mirror=mirror,
        remeasure=remeasure,
    )
    print_answer(run.view)
    if run.interrupted:
        typer.echo(f"interrupted; go on with: advisor search --resume {run.path}", err=True)
        raise typer.Exit(INTERRUPTED)
    if not run.decision.feasible:
        raise typer.Exit(NOTHING_FITS)


def _split(values: list[str] | None) -> list[str] | None:
    return [part.strip() for value in values for part in value.split(",") if part.strip()] if values else None
