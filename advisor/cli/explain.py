"""``advisor explain``: what a term of the reports means."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from typing import Annotated

import typer

from advisor.cli.options import AsJson
from advisor.cli.output import print_json

WIDTH = 90
"""Columns of a text."""


def named(incomplete: str) -> list[str]:
    """Return the names of terms that begin so, for the completion of a shell."""
    from advisor.reporting.glossary import terms

    return [each.name for each in terms() if each.name.startswith(incomplete)]


def explain(
    term: Annotated[
        list[str] | None,
        typer.Argument(metavar="TERM", help="The term, such as p90 or hold-out.", autocompletion=named),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Explain a term of the reports in a few sentences. Without a term, list those that are explained.

    Example: advisor explain hold-out
    """
    from advisor.reporting import glossary

    found = [glossary.term(" ".join(term))] if term else list(glossary.terms())
    if as_json:
        print_json({"schema_version": 1, "terms": [asdict(each) for each in found]})
    elif term:
        typer.secho(found[0].name, bold=True)
        typer.echo(textwrap.fill(found[0].text, WIDTH))
        typer.echo(f"More: docs/{found[0].page}")
    else:
        typer.echo(textwrap.fill(", ".join(each.name for each in found), WIDTH))
