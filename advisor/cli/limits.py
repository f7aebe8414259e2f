"""Limits and preference as flags, and what is wrong with a run, as several commands show it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="A run folder, such as runs/latest.")]
Budget = Annotated[str | None, typer.Option(metavar="TIME", help="Latency limit, met by 9 of 10 runs, such as 50ms.")]
SizeBudget = Annotated[str | None, typer.Option(metavar="SIZE", help="Limit of the file's size, such as 5MB.")]
MemoryBudget = Annotated[str | None, typer.Option(metavar="SIZE", help="Limit of the peak memory, such as 50MB.")]
MaxDrop = Annotated[
    str | None, typer.Option(metavar="POINTS", help="Points of accuracy that compression may cost, such as 1pt.")
]
MinAccuracy = Annotated[str | None, typer.Option(metavar="PERCENT", help="Least top-1 accuracy, such as 85%.")]
Prefer = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="What counts: balanced, accuracy, latency, size, or weights: accuracy=2,latency=1,size=0.5.",
    ),
]
Licence = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES", help="Licences that are taken: permissive, SPDX identifiers, or both joined by commas."
    ),
]
MustRunOn = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAMES", help="Devices that the pick must run on too, within the budget; repeat, or join by commas."
    ),
]
Confidence = Annotated[
    str | None,
    typer.Option(metavar="PERCENT", help="How sure a predicted latency must be to meet the budget. Default: 90%."),
]
ProfileFolders = Annotated[
    list[str] | None,
    typer.Option("--profiles", metavar="DIR", help="Folder of your own device profiles; repeat for more."),
]


def warn_of_flaws(run: str, artefacts: bool = False) -> None:
    """Say on standard error what is wrong with a run folder; what can still be done is done."""
    from advisor.store import RunFolder
    from advisor.store.integrity import find_flaws

    for flaw in find_flaws(RunFolder.open(Path(run)), artefacts):
        typer.echo(f"warning: {run}: {flaw}", err=True)
