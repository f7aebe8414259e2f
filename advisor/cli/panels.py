"""Options in groups: the help of a command with many options shows them group by group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typer.core import TyperArgument, TyperCommand, TyperOption

if TYPE_CHECKING:  # Typer 0.29 brings its own copy of Click; older ones import it.
    from typer._click.core import Context, Parameter
    from typer._click.formatting import HelpFormatter

QUESTION = "Question"
CANDIDATES = "Candidates"
TRAINING = "Training and compression"
DEVICES = "Devices"
RUNNING = "Running"
OUTPUT = "Output"
PANELS = (QUESTION, CANDIDATES, TRAINING, DEVICES, RUNNING, OUTPUT)


class GroupedCommand(TyperCommand):
    """A command whose plain help shows each ``rich_help_panel`` under its own heading, in the order of ``PANELS``."""

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write the options of each group; an option without a group belongs to the output."""
        for panel in PANELS:
            options = [option for option in self.get_params(ctx) if _panel(option) == panel]
            rows = [record for option in options if (record := option.get_help_record(ctx))]
            if rows:
                with formatter.section(panel):
                    formatter.write_dl(rows)


def _panel(option: Parameter) -> str:
    named = option.rich_help_panel if isinstance(option, TyperOption | TyperArgument) else None
    return named or OUTPUT
