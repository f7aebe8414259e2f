"""Ask which reading of an input is meant, if somebody is at the terminal.

A command wraps the public function that reads images in :func:`with_readings`. A function that
finds several readings raises :class:`.AmbiguousInput`, whose hint has the options of all.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import typer

from advisor.core import COMMAND_BEGAN, AmbiguousInput, Reading, visible

Answer = TypeVar("Answer")

MOST_COLUMNS = 100
"""A wider text is hard to read."""

INDENT = "     "


def at_terminal() -> bool:
    """Return whether somebody can read a question and answer it."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def with_readings(work: Callable[..., Answer], options: Mapping[str, Any]) -> Answer:
    """Call ``work`` with options, and again with the reading
    that is chosen where an input has several.

    Raises AmbiguousInput: nobody is at the terminal, or none of the readings is meant.
    """
    chosen = dict(options)
    while True:
        try:
            return work(**chosen)
        except AmbiguousInput as question:
            # Not every command has the options that a reading sets;
            # such a reading cannot be followed there.
            readings = [
                reading for reading in question.readings if reading.options.keys() <= chosen.keys()
            ]
            if not readings or not at_terminal():
                raise
            reading = _choose_reading(question.message, readings)
            if reading is None:
                raise
            typer.echo(f"The same without the question: {visible(reading.shown)}", err=True)
            chosen |= reading.options


def _choose_reading(message: str, readings: list[Reading]) -> Reading | None:
    """Show a question with what each answer means; None where the user wants none of them."""
    width = min(shutil.get_terminal_size().columns, MOST_COLUMNS)
    typer.echo(textwrap.fill(visible(message), width), err=True)
    for number, reading in enumerate(readings, start=1):
        typer.echo(f"  {number}  {visible(reading.shown)}", err=True)
        meaning = f"{reading.meaning[:1].upper()}{reading.meaning[1:]}."
        typer.echo(
            textwrap.fill(
                visible(meaning), width, initial_indent=INDENT, subsequent_indent=INDENT
            ),
            err=True,
        )

    def number_of(written: str) -> int:
        number = int(written) if written.strip().isdecimal() else len(readings) + 1
        if number > len(readings):
            raise typer.BadParameter(f"'{written}' is no number from 0 to {len(readings)}")
        return number

    number = typer.prompt(
        f"Which one, 1 to {len(readings)}, or 0 to stop", value_proc=number_of, err=True
    )
    COMMAND_BEGAN.set(time.monotonic())  # a time limit does not count how long a person thinks
    return readings[number - 1] if number else None
