"""JSON output for programs, the same for all commands."""

from __future__ import annotations

from collections.abc import Mapping

import typer


def print_json(document: Mapping[str, object]) -> None:
    """Write a document to standard output as ASCII, which no terminal or file name can break.

    Raises:
        ValueError: a number is not finite; JSON has no form for it.
    """
    import json

    typer.echo(json.dumps(document, indent=1, allow_nan=False))
