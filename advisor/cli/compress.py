"""``advisor compress``: smaller and faster forms of a ``.tflite`` file of one's own, and what each costs."""

from __future__ import annotations

from typing import Annotated

import typer

from advisor.cli.options import decimals, progress
from advisor.cli.output import print_json

NOTHING_GOOD = 3


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("compress")(compress)


def compress(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A float .tflite classifier with fixed shapes.")],
    recipe: Annotated[list[str], typer.Option(help="Recipes, such as int8,rounded; repeat, or join by commas.")],
    calibration: Annotated[
        str | None, typer.Option(metavar="DIR", help="Pictures to calibrate on, labelled or not.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(metavar="DIR", help="Labelled pictures, one folder a class: measures accuracy.")
    ] = None,
    max_drop: Annotated[
        str | None, typer.Option(help="What a form may lose against float, such as 0.5pt (needs --data).")
    ] = None,
    to: Annotated[str | None, typer.Option(metavar="DIR", help="Folder for the forms. Default MODEL-forms.")] = None,
    mean: Annotated[
        str | None, typer.Option(help="Subtracted from RGB 0 to 255, where the file does not say it: 127.5")
    ] = None,
    std: Annotated[str | None, typer.Option(help="What the difference is divided by: 127.5")] = None,
    seed: Annotated[int, typer.Option(help="Draws pictures and splits.")] = 0,
    latency: Annotated[bool, typer.Option("--latency/--no-latency", help="Time the forms.")] = True,
    accelerator: Annotated[
        str, typer.Option(help="Whose operators are counted: xnnpack (the CPU), edgetpu, nnapi, coreml, ...")
    ] = "xnnpack",
    time_limit: Annotated[
        str, typer.Option(help="How long a recipe that learns may take: it gives the best that it has by then.")
    ] = "10min",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace forms that are there.")] = False,
) -> None:
    """Make smaller or faster forms of a float .tflite classifier and say what each costs.

    Exit code 3: no form could be made that keeps within --max-drop.

    Example: advisor compress model.tflite --recipe int8,float16 --data photos/ --max-drop 0.5pt
    """
    from advisor import api
    from advisor.core.units import points, seconds

    names = [name.strip() for value in recipe for name in value.split(",") if name.strip()]
    with progress() as tell:
        found = api.compress(
            model,
            names,
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
    if as_json:
        from advisor.report.escape import finite

        print_json(finite(found.to_json()))
    else:
        from advisor.report.compress_table import print_compression

        print_compression(found)
    if not found.good:
        raise typer.Exit(NOTHING_GOOD)
