"""Options that several commands share: the limits of a question, its preference, and a run folder."""

from __future__ import annotations

from typing import Annotated

import typer

from advisor.cli.panels import DEVICES, QUESTION

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="A run folder, such as runs/latest.")]
Budget = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Latency limit that 9 of 10 runs meet, such as 50ms.", rich_help_panel=QUESTION),
]
SizeBudget = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Limit of the file size, such as 5MB.", rich_help_panel=QUESTION)
]
MemoryBudget = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Limit of the peak memory, such as 50MB.", rich_help_panel=QUESTION)
]
MaxDrop = Annotated[
    str | None,
    typer.Option(
        metavar="POINTS", help="Points of accuracy that compression may cost, such as 1pt.", rich_help_panel=QUESTION
    ),
]
MinAccuracy = Annotated[
    str | None, typer.Option(metavar="PERCENT", help="Lowest top-1 accuracy, such as 85%.", rich_help_panel=QUESTION)
]
Prefer = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Preference: balanced, accuracy, latency, size, or weights: accuracy=2,latency=1.",
        rich_help_panel=QUESTION,
    ),
]
Licence = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="Accepted licences: permissive, SPDX identifiers, or both joined by commas.",
        rich_help_panel=QUESTION,
    ),
]
Confidence = Annotated[
    str | None,
    typer.Option(
        metavar="PERCENT",
        help="Probability that a predicted latency meets the budget, such as 90%.",
        rich_help_panel=QUESTION,
    ),
]
MustRunOn = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAMES",
        help="Further devices on which the pick must meet the budget; repeat, or join by commas.",
        rich_help_panel=DEVICES,
    ),
]
ProfileFolders = Annotated[
    list[str] | None,
    typer.Option(
        "--profiles",
        metavar="DIR",
        help="Folder of your own device profiles; repeat for more.",
        rich_help_panel=DEVICES,
    ),
]


def warn_of_problems(run: str, artefacts: bool = False) -> None:
    """Write on standard error which files of a run folder are damaged; the command goes on with the others."""
    from advisor import api

    for problem in api.check_run(run, artefacts=artefacts):
        typer.echo(f"warning: {run}: {problem}", err=True)
