"""``advisor profile``: where the time of one ``.tflite`` file goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from advisor.cli import options
from advisor.cli.options import channels, shape_of, split
from advisor.cli.output import print_json
from advisor.cli.progress import progress
from advisor.core.errors import UsageError

if TYPE_CHECKING:
    from advisor.compression.diagnosis.values import Diagnosis

Tell = Callable[[str], None]


@dataclass(frozen=True)
class ProfileOptions:
    """The options of ``advisor profile``."""

    threads: Annotated[int, typer.Option(metavar="N", help="Number of CPU threads.")] = 1
    shape: options.Shape = None
    xnnpack: options.Xnnpack = True
    accelerator: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help="Also compute which operators this accelerator takes: edgetpu, ethos-u55, ...; repeat for more.",
        ),
    ] = None
    against: Annotated[
        str | None,
        typer.Option(metavar="FLOAT", help="Float file that MODEL was made from; shows why MODEL is less accurate."),
    ] = None
    calibration: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Folder of images that both files classify. Default: bundled photographs."),
    ] = None
    mean: options.Mean = None
    std: options.Std = None
    sort: options.Sort = ""
    only: options.Filter = None
    as_json: options.AsJson = False
    html: Annotated[str | None, typer.Option(metavar="FILE", help="Write the page with plots to this file.")] = None
    out: Annotated[str | None, typer.Option(metavar="DIR", help="Write the page and the JSON into this folder.")] = None
    everything: Annotated[bool, typer.Option("--all", help="Show every operator, not only the slowest.")] = False


def profile(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A .tflite file.")],
    *,
    asked: ProfileOptions,
) -> None:
    """Show where the time of a .tflite file goes, operator by operator, and what to do about it.

    Example: advisor profile model.tflite --html profile.html
    """
    from advisor import api
    from advisor.reporting.profile import STEPS, print_profile, requested_files, write_files

    rows = STEPS.select(asked.sort, asked.only)
    wanted = requested_files(Path(asked.out) if asked.out else None, {"html": Path(asked.html)} if asked.html else {})
    with progress(f"reading {Path(model).name}") as tell:
        diagnosis = _diagnosis(model, asked.against, asked.calibration, asked.mean, asked.std, tell)
        tell(f"profiling {Path(model).name}")
        found = api.profile(
            model,
            threads=asked.threads,
            kernels="default" if asked.xnnpack else "builtin",
            shape=shape_of(asked.shape),
            accelerators=split(asked.accelerator) or (),
        )
    write_files(found, wanted, diagnosis)
    shown = rows.of(found.operators)
    if asked.as_json:
        more = {"diagnosis": diagnosis.to_json()} if diagnosis else {}
        steps = replace(found, operators=shown).to_json()["operators"]
        print_json({**found.to_json(), "operators": steps, **more})
        return
    print_profile(
        found,
        everything=asked.everything,
        written=tuple(wanted.values()),
        diagnosis=diagnosis,
        steps=shown if asked.sort or asked.only else None,
    )


def _diagnosis(
    model: str, against: str | None, calibration: str | None, mean: str | None, std: str | None, tell: Tell
) -> Diagnosis | None:
    """Compare the file with the float file, if that is given.

    Raises:
        UsageError: options of this comparison without the float file.
    """
    from advisor import api

    if against is None:
        if calibration or mean or std:
            raise UsageError("--calibration, --mean and --std need --against", "name the float file with --against")
        return None
    tell(f"comparing {Path(model).name} with {Path(against).name}")
    means, stds = channels(mean, "--mean"), channels(std, "--std")
    return api.diagnose(model, against, calibration=calibration, mean=means, std=stds)
