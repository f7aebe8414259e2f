"""``advisor export``: the bundle to ship."""

from __future__ import annotations

from typing import Annotated

import typer

from advisor.cli.options import RunArgument
from advisor.cli.output import warn_of_problems


def export(
    run: RunArgument,
    to: Annotated[str | None, typer.Option(metavar="DIR", help="Folder to create.")] = None,
    pick: Annotated[
        str | None,
        typer.Option(
            metavar="CANDIDATE",
            help="Candidate to ship: its number in --list, or its key. Default: the pick of the run.",
        ),
    ] = None,
    android: Annotated[bool, typer.Option("--android", help="Add Kotlin code for an app.")] = False,
    ios: Annotated[bool, typer.Option("--ios", help="Add Swift code for an app.")] = False,
    python: Annotated[bool, typer.Option("--python", help="Add a Python program.")] = False,
    edgetpu: Annotated[bool, typer.Option("--edgetpu", help="Add a program for a Coral Edge TPU (int8 only).")] = False,
    encrypt_key_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="Encrypt the model (AES-256-GCM) with the key in this file.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a bundle that exists.")] = False,
    show: Annotated[
        bool, typer.Option("--list", help="Show the candidates that --pick takes, and write nothing.")
    ] = False,
) -> None:
    """Write the bundle to ship: model, labels, model card, test vectors, checksums and code for the app.

    Without --android, --ios, --python and --edgetpu the first three are written. The same run gives the same bytes.

    Example: advisor export runs/latest --to bundle --android
    """
    from advisor import api
    from advisor.core.errors import UsageError

    warn_of_problems(run)
    if show:
        _show(run)
        return
    if to is None:
        raise UsageError("--to is missing", "name the folder to create, for example --to bundle")
    flags = {"android": android, "ios": ios, "python": python, "edgetpu": edgetpu}
    targets = [name for name, given in flags.items() if given]
    bundle = api.export(run, to, pick=pick, targets=targets, key_file=encrypt_key_file, force=force)
    typer.echo(f"{bundle.evaluation.configuration.key} -> {bundle.path} ({len(bundle.files)} files)")
    for edit in bundle.model.edits:
        typer.echo(f"for MediaPipe: {edit}; the file as it was measured is beside it")
    typer.echo(f"Next: python {bundle.path}/check.py{' --key-file KEY' if encrypt_key_file else ''}")


def _show(run: str) -> None:
    from advisor import api
    from advisor.core.escape import plain
    from advisor.core.figures import describe

    for number, evaluation in enumerate(api.exportable(run), start=1):
        typer.echo(plain(f"{number}  {describe(evaluation)}  {evaluation.configuration.key}"))
