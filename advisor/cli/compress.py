"""``advisor compress``: compressed files of your own ``.tflite`` file, and what each costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from advisor.cli import completion, options
from advisor.cli.options import channels, split
from advisor.cli.output import print_json
from advisor.cli.progress import progress
from advisor.core.errors import ExitCode

if TYPE_CHECKING:
    from advisor.compression.user_model.values import Compression, RecipeResult


@dataclass(frozen=True)
class CompressOptions:
    """The options of ``advisor compress``."""

    recipe: Annotated[
        list[str],
        typer.Option(
            "--recipe",
            metavar="NAMES",
            help="Compression recipes, such as int8,rounded; repeat, or join by commas.",
            autocompletion=completion.of("compressions"),
        ),
    ]
    calibration: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Folder of calibration images, labelled or not. Default: those of --data."),
    ] = None
    data: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Images in class folders, or for a detector with boxes; measures accuracy."),
    ] = None
    samples: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="An .npz file with samples of each input, for a model of other inputs or outputs.",
        ),
    ] = None
    max_drop: Annotated[
        str | None,
        typer.Option(metavar="POINTS", help="Points of accuracy that a file may lose, such as 0.5pt (needs --data)."),
    ] = None
    to: Annotated[str | None, typer.Option(metavar="DIR", help="Folder for the files. Default: MODEL-forms.")] = None
    mean: options.Mean = None
    std: options.Std = None
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of all random draws.")] = 0
    latency: Annotated[bool, typer.Option("--latency/--no-latency", help="Measure the latency of the files.")] = True
    accelerator: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Accelerator whose operators are counted: xnnpack (the CPU), edgetpu, ...",
        ),
    ] = "xnnpack"
    time_limit: Annotated[
        str,
        typer.Option(metavar="TIME", help="Time limit of a recipe that trains; the best result so far is used."),
    ] = "10min"
    sort: options.Sort = ""
    only: options.Filter = None
    as_json: options.AsJson = False
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False


def compress(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A float .tflite file.")],
    *,
    asked: CompressOptions,
) -> None:
    """Make compressed files of a float .tflite file and measure what each costs.

    A classifier or detector of images needs nothing else. Any other model needs --samples.

    Exit code 3: no file could be made that stays within --max-drop.

    Example: advisor compress model.tflite --recipe int8,float16 --data photos/ --max-drop 0.5pt
    """
    from advisor import api
    from advisor.core.units import points, seconds
    from advisor.reporting.compress_table import FORMS

    rows = FORMS.select(asked.sort, asked.only)

    with progress(f"reading {model}") as tell:
        found = api.compress(
            model,
            split(asked.recipe) or (),
            calibration=asked.calibration,
            data=asked.data,
            samples=asked.samples,
            max_drop_points=points(asked.max_drop, "--max-drop") if asked.max_drop else None,
            to=asked.to,
            mean=channels(asked.mean, "--mean"),
            std=channels(asked.std, "--std"),
            seed=asked.seed,
            latency=asked.latency,
            accelerator=asked.accelerator,
            learn_s=seconds(asked.time_limit, "--time-limit"),
            force=asked.force,
            tell=tell,
        )
    _show(found, rows.of(found.forms), asked.as_json)
    if not found.good:
        raise typer.Exit(ExitCode.UNSATISFIED)


def _show(found: Compression, shown: Sequence[RecipeResult], as_json: bool) -> None:
    if as_json:
        from advisor.reporting.text import finite

        print_json(finite(replace(found, forms=tuple(shown)).to_json()))
        return
    from advisor.reporting.compress_table import print_compression

    print_compression(found, shown=shown)
