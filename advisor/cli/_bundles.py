"""The commands for the bundle to ship: ``export`` writes it, ``verify`` tries it on a device.

A bundle is a folder that leaves advisor; ``reporting/_bundle/`` makes its layout.
``_main.py`` registers the commands.
"""

import shlex
import sys
from dataclasses import dataclass
from typing import Annotated

import typer

from advisor.cli import _options as options
from advisor.cli._options import argument, completion_of, option
from advisor.cli._output import (
    note,
    print_document,
    print_json,
    progress,
    warn_of_problems,
    write_sentences,
)
from advisor.core import ExitCode, UsageError, parse_count

PLATFORMS = ("android", "ios", "python", "edgetpu", "microcontroller", "coreml", "tiers")
"""The flags of ``advisor export`` that replace the usual platforms."""


PAGE = "web/index.html"


@dataclass(frozen=True)
class ExportOptions:
    """The options of ``advisor export``."""

    to: Annotated[str | None, option("DIR", "Folder to create.")] = None
    pick: Annotated[
        str | None,
        option(
            "CANDIDATE",
            "Candidate to ship: its number in --list, or its key. Default: the pick of the run.",
        ),
    ] = None
    android: Annotated[bool, option("", "Add Kotlin code for an app.", "--android")] = False
    ios: Annotated[bool, option("", "Add Swift code for an app.", "--ios")] = False
    python: Annotated[bool, option("", "Add a Python program.", "--python")] = False
    edgetpu: Annotated[
        bool, option("", "Add a program for a Coral Edge TPU (int8 only).", "--edgetpu")
    ] = False
    web: Annotated[
        bool | None,
        option(
            "",
            "Add the web page that tries the model: 8 MB and 4/3 of the model. Default: if its"
            " runtime can be fetched.",
            "--web/--no-web",
        ),
    ] = None
    coreml: Annotated[
        bool,
        option(
            "", "Add a Core ML package of the float classifier. It is not run here.", "--coreml"
        ),
    ] = False
    microcontroller: Annotated[
        bool,
        option(
            "", "Add C++ for TensorFlow Lite Micro: model, arena, operators.", "--microcontroller"
        ),
    ] = False
    tiers: Annotated[
        bool,
        option(
            "",
            "Add the files for the fleet of the run, with selectors for apps in four languages.",
            "--tiers",
        ),
    ] = False
    tier_count: Annotated[
        int,
        option(
            "N",
            "With --tiers: number of files, 1 to 3. Default: the recommended number.",
            "--tier-count",
        ),
    ] = 0
    unknown_class: Annotated[
        bool,
        option(
            "",
            "Add a class 'unknown' for images of things outside the other classes (pick only).",
            "--unknown-class",
        ),
    ] = False
    sign: Annotated[
        str | None,
        option(
            "KEY", "Private Ed25519 key in PEM that signs the bundle; check.py --key verifies it."
        ),
    ] = None
    force: Annotated[bool, option("", "Replace a bundle that exists.", "--force")] = False
    show: Annotated[
        bool, option("", "Show the candidates that --pick takes, and write nothing.", "--list")
    ] = False
    sort: options.Sort = ""
    only: options.Filter = None
    as_json: options.AsJson = False


def export(run: options.RunArgument, *, asked: ExportOptions) -> None:
    """Write the bundle to ship: model, labels, model card, test vectors, checksums,
    code for the app, a page to try it.

    Without an option for a platform, --android, --ios and --python are used.
    The same run gives the same bytes.

    Example: advisor export runs/latest --to bundle --android
    """
    from advisor import api

    if asked.show:
        warn_of_problems(run)
        _show_exportable(run, asked.sort, asked.only, asked.as_json)
        return
    # Without a table the two would have no effect, which the user might not notice.
    if asked.sort or asked.only:
        raise UsageError("--sort and --filter need --list", "add --list, or leave them out")
    if asked.to is None:
        raise UsageError("--to is missing", "name the folder to create, for example --to bundle")
    targets = [name for name in PLATFORMS if getattr(asked, name)]
    if asked.tier_count and not asked.tiers:
        raise UsageError("--tier-count needs --tiers", "add --tiers, or leave it out")
    parse_count("tiers", asked.tier_count, "--tier-count")
    warn_of_problems(run)
    with progress("writing and checking the bundle"):
        bundle = api.export(
            run,
            asked.to,
            pick=asked.pick,
            targets=targets,
            force=asked.force,
            unknown_class=asked.unknown_class,
            web=asked.web,
            sign=asked.sign,
            tiers=asked.tier_count,
        )
    if bundle.without_page:
        note(bundle.without_page)
    configuration = bundle.evaluation.configuration
    edits = bundle.model.edits
    if asked.as_json:
        facts = {
            "files": list(bundle.files),
            "edits": list(edits),
            "without_page": bundle.without_page,
        }
        print_document(key=configuration.key, path=str(bundle.path), **facts)
        return
    typer.echo(f"wrote {configuration.name} to {bundle.path} ({len(bundle.files)} files)")
    for edit in edits:
        typer.echo(f"for MediaPipe: {edit}; the file without this edit is beside it")
    if PAGE in bundle.files:
        typer.echo(f"Try it: open {bundle.path}/{PAGE} in a browser")
    # Another Python may lack the runtime, and many systems have no command of this name.
    typer.echo(f"Next: {shlex.join([sys.executable, f'{bundle.path}/check.py'])}")


def _show_exportable(run: str, sort: str, only: list[str] | None, as_json: bool) -> None:
    from advisor import api
    from advisor.core import plain
    from advisor.reporting import make_candidate_rows

    rows = make_candidate_rows().select(sort, only)
    candidates = api.exportable(run)
    # Counted before rows are left out or sorted, because --pick counts the whole list.
    numbers = {}
    for number, candidate in enumerate(candidates, start=1):
        numbers[candidate.configuration.key] = number
    shown = rows.of(candidates)
    if as_json:
        entries = []
        for candidate in shown:
            key = candidate.configuration.key
            entries.append({"key": key, "description": candidate.describe_figures()})
        print_document(candidates=entries)
        return
    if not candidates:
        typer.echo("The run has no candidate with a file.")
    for candidate in shown:
        key = candidate.configuration.key
        typer.echo(plain(f"{numbers[key]}  {candidate.describe_figures()}  {key}"))


def verify(
    device: Annotated[str, argument("DEVICE", "Name of the device.", completion_of("device"))],
    bundle: Annotated[
        str, argument("BUNDLE", "Folder of a bundle that was exported with --tiers.")
    ],
    ssh: Annotated[
        str, option("HOST", "Connect over ssh. Default: the connection of the device's profile.")
    ] = "",
    adb: Annotated[
        str, option("SERIAL", "Connect over adb, which times the files and runs no test vectors.")
    ] = "",
    python: Annotated[
        str, option("PATH", "Python interpreter of the device that has a TFLite runtime.")
    ] = "python3",
    benchmark_model: Annotated[
        str | None, option("PATH", "TensorFlow Lite's benchmark_model, for --adb.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Run the test vectors of the files of a fleet on a device, and time each file there.

    Exit code 3: a file computes something else,
    or the one that the selector chooses misses the budget.

    Example: advisor verify raspberry-pi-4 bundle --ssh pi@board.local
    """
    from advisor import api
    from advisor.devices import ConnectionSettings

    settings = ConnectionSettings.from_options(ssh, adb, False, python, benchmark_model)
    with progress("running the files on the device"):
        verification = api.verify(device, bundle, connection=settings)
    if as_json:
        print_json(verification.to_json())
    else:
        for sentence in verification.sentences:
            write_sentences(sentence)
    if not verification.good:
        raise typer.Exit(ExitCode.UNSATISFIED)
