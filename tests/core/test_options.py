"""An option that is added to the table is in the help, in the keywords and in the resolved request."""

from __future__ import annotations

import inspect
from typing import Annotated, Unpack

import pytest
import typer
from typer.testing import CliRunner

from advisor.api.options import takes_options
from advisor.cli.options import SearchCommand, annotations_of, takes
from advisor.core.errors import UsageError
from advisor.core.options import DEVICES, PLAN, RUNNING, SEARCH, Number, Option, PlanOptions, Text, table_of
from advisor.engine.question import resolve


class MoreOptions(PlanOptions, total=False):
    """The options of a plan, with two more."""

    hue: Annotated[Text, Option(DEVICES, "NAME", "Colour of the device.", "red", choices=("red", "green"))]
    depth: Annotated[Number, Option(RUNNING, "N", "Depth of the search in metres.", first=True)]


MORE = table_of(MoreOptions)


def shown(*arguments: str) -> str:
    """Return what a command with the options prints."""
    app = typer.Typer(rich_markup_mode=None)

    @app.command(cls=SearchCommand)
    @takes(annotations_of(MORE))
    def ask(**options: object) -> None:
        """Print the options that are given."""
        typer.echo({name: value for name, value in options.items() if value is not None})

    return CliRunner().invoke(app, arguments).output


def test_the_help_of_a_command_has_it() -> None:
    assert "Colour of the device. Default: red." in shown("--help-all")
    assert "Depth of the search in metres." in shown("--help-all")


def test_the_short_help_has_the_options_of_a_search_that_are_needed_first_and_names_the_long_one() -> None:
    text = shown("--help")
    assert all(f"--{name.replace('_', '-')} " in text for name, option in PLAN.items() if option.first)
    assert "--help-all" in text
    assert "--hue" not in text
    assert sum(option.first for option in SEARCH.values()) == 10


def test_a_command_takes_it() -> None:
    assert shown("--hue", "green", "--depth", "3") == "{'hue': 'green', 'depth': 3}\n"


def test_a_function_takes_it_documents_it_and_refuses_others() -> None:
    @takes_options(MoreOptions)
    def ask(*, quiet: bool = False, **options: Unpack[MoreOptions]) -> object:
        """Return what is given.

        Args:
            quiet: say nothing.

        Raises:
            ValueError: never.
        """
        return options

    assert ask(hue="green", depth=3) == {"hue": "green", "depth": 3}
    assert inspect.signature(ask).parameters["hue"].annotation == Text
    assert "    hue: Colour of the device. Default: ``red``.\n    depth:" in (ask.__doc__ or "")
    with pytest.raises(TypeError, match=r"ask\(\) got an unexpected keyword argument 'hu'"):
        ask(hu="green")  # type: ignore[call-arg]


def test_the_resolved_request_has_it() -> None:
    written = resolve({"hue": "green"}, table=MORE).written
    assert (written["hue"], written["depth"]) == ("green", 0)


def test_its_name_is_parsed_by_its_choices() -> None:
    from advisor.engine.question.options import collect_options

    assert collect_options({"hue": "green"}, MORE).parsed("hue") == "green"
    with pytest.raises(UsageError, match="--hue: unknown 'gren'"):
        collect_options({"hue": "gren"}, MORE).parsed("hue")
