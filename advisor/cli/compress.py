"""``advisor compress``: smaller and faster forms of a ``.tflite`` file of one's own, and what each costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from advisor.cli.options import decimals, split_commas
from advisor.cli.output import print_json
from advisor.cli.progress import progress
from advisor.core.exits import ExitCode

if TYPE_CHECKING:
    from advisor.compression.user_model.values import Compression


Model = Annotated[str, typer.Argument(metavar="MODEL", help="A float .tflite classifier with fixed shapes.")]
Recipes = Annotated[
    list[str],
    typer.Option("--recipe", metavar="NAMES", help="Recipes, such as int8,rounded; repeat, or join by commas."),
]
Calibration = Annotated[str | None, typer.Option(metavar="DIR", help="Pictures to calibrate on, labelled or not.")]
Data = Annotated[
    str | None, typer.Option(metavar="DIR", help="Labelled pictures, one folder a class: measures accuracy.")
]
MaxDrop = Annotated[
    str | None, typer.Option(metavar="POINTS", help="What a form may lose against float, such as 0.5pt (needs --data).")
]
To = Annotated[str | None, typer.Option(metavar="DIR", help="Folder for the forms. Default MODEL-forms.")]
Mean = Annotated[
    str | None,
    typer.Option(metavar="NUMBERS", help="Subtracted from RGB 0 to 255, where the file does not say it: 127.5"),
]
Std = Annotated[str | None, typer.Option(metavar="NUMBERS", help="What the difference is divided by: 127.5")]
Seed = Annotated[int, typer.Option(metavar="N", help="Draws pictures and splits.")]
Latency = Annotated[bool, typer.Option("--latency/--no-latency", help="Time the forms.")]
Accelerator = Annotated[
    str,
    typer.Option(metavar="NAME", help="Whose operators are counted: xnnpack (the CPU), edgetpu, nnapi, coreml, ..."),
]
TimeLimit = Annotated[
    str,
    typer.Option(metavar="TIME", help="How long a recipe that learns may take: it gives the best that it has by then."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Force = Annotated[bool, typer.Option("--force", help="Replace forms that are there.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("compress", short_help="Make smaller or faster forms of a .tflite file.")(compress)


def compress(
    model: Model,
    recipe: Recipes,
    calibration: Calibration = None,
    data: Data = None,
    max_drop: MaxDrop = None,
    to: To = None,
    mean: Mean = None,
    std: Std = None,
    seed: Seed = 0,
    latency: Latency = True,
    accelerator: Accelerator = "xnnpack",
    time_limit: TimeLimit = "10min",
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Make smaller or faster forms of a float .tflite classifier and say what each costs.

    Exit code 3: no form could be made that keeps within --max-drop.

    Example: advisor compress model.tflite --recipe int8,float16 --data photos/ --max-drop 0.5pt
    """
    from advisor import api
    from advisor.core.units import points, seconds

    with progress() as tell:
        found = api.compress(
            model,
            split_commas(recipe),
            calibration=calibration,
            data=data,
            max_drop_points=points(max_drop, "--max-drop") if max_drop else None,
            to=to,
            mean=decimals(mean, "--mean"),
            std=decimals(std, "--std"),
            seed=seed,
            latency=latency,
            accelerator=accelerator,
            learn_s=seconds(time_limit, "--time-limit"),
            force=force,
            tell=tell,
        )
    _show(found, as_json)
    if not found.good:
        raise typer.Exit(ExitCode.UNSATISFIED)


def _show(found: Compression, as_json: bool) -> None:
    if as_json:
        from advisor.reporting.escape import finite

        print_json(finite(found.to_json()))
        return
    from advisor.reporting.compress_table import print_compression

    print_compression(found)
