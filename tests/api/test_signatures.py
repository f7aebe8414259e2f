"""The public functions name their arguments: typed, documented, and the same as the options of the commands."""

import inspect
import re
from collections.abc import Callable
from inspect import unwrap
from typing import Any, get_type_hints

import pytest
from typer.core import TyperCommand

import advisor
from advisor import api, catalog, devices
from advisor.cli._main import app
from advisor.core import PLAN, OptionGroup
from tests.makers.forks import build_once

FOR_COMMANDS = {"State", "demonstrate", "experiment_log", "judge", "memory_there", "warn_of_input"}
FOR_COMMANDS |= {"list_accelerators", "write_request"}
"""What the face of the room offers to the command line alone."""

CATALOG = ("add", "check", "fetch", "list_cards", "show", "to_frame")
DEVICES = ("add", "calibrate", "list_devices", "remove", "show", "to_frame")
PUBLIC = [name for name in api.__all__ if name not in FOR_COMMANDS]
FUNCTIONS: dict[str, Callable[..., object]] = {
    **{name: getattr(api, name) for name in PUBLIC if inspect.isfunction(getattr(api, name))},
    **{f"catalog.{name}": getattr(catalog, name) for name in CATALOG},
    **{f"devices.{name}": getattr(devices, name) for name in DEVICES},
}
OPTIONS = {name: option.default for name, option in PLAN.items() if option.kept}
ONLY_SEARCH = {"resume", "extend", "verbose"}
TEXT_DEFAULTS = [name for name, default in OPTIONS.items() if isinstance(default, str) and default]


def arguments(function: Callable[..., object]) -> list[str]:
    return list(inspect.signature(function).parameters)


def command(name: str) -> TyperCommand:
    found: TyperCommand = build_once(app).commands[name]  # type: ignore[attr-defined]
    return found


def documented(function: Callable[..., object]) -> dict[str, str]:
    """The text of each argument in the docstring."""
    text = inspect.getdoc(function) or ""
    section = re.search(r"^Args:\n((?:    .*\n?|\n)*)", text, re.MULTILINE)
    entries = re.findall(r"^    (\w+): ((?:.*\n?)(?:     .*\n?)*)", section[1] if section else "", re.MULTILINE)
    return {name: " ".join(about.split()) for name, about in entries}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_argument_is_named_typed_and_documented(name: str) -> None:
    assert list(documented(FUNCTIONS[name])) == arguments(FUNCTIONS[name])
    parameters = inspect.signature(FUNCTIONS[name]).parameters.values()
    assert not [each for each in parameters if each.kind is inspect.Parameter.VAR_KEYWORD]
    assert all(each.annotation not in (inspect.Parameter.empty, "Any") for each in parameters)
    assert not [each for each in parameters if re.search(r"\bAny\b", str(each.annotation))]


def test_search_takes_every_option_of_a_request_and_plan_those_of_a_search_in_the_same_order() -> None:
    assert set(arguments(api.search)) == {*OPTIONS, *ONLY_SEARCH, "request", "quiet"}
    shared = [name for name in arguments(api.search) if name not in {*ONLY_SEARCH, "quiet"}]
    assert arguments(api.plan) == shared


@pytest.mark.parametrize("name", ["search", "plan"])
def test_the_command_takes_the_arguments_of_its_function(name: str) -> None:
    shown = {"as_json", "brief", "demo", "every", "log_to", "sort", "only", "quiet"}
    options = [option.name for option in command(name).params if option.name not in shown]
    assert options == [argument for argument in arguments(FUNCTIONS[name]) if argument not in shown]


@pytest.mark.parametrize("function", [api.search, api.plan], ids=["search", "plan"])
def test_an_option_that_is_not_given_is_none_so_that_a_request_file_may_give_it(function: Callable[..., Any]) -> None:
    hints = get_type_hints(function, {**vars(api._runs), "PlanView": object})
    for name in (*OPTIONS, "request"):
        assert inspect.signature(function).parameters[name].default is None
        assert type(None) in hints[name].__args__


@pytest.mark.parametrize("name", ["search", "plan"])
def test_the_default_of_an_option_is_stated_alike_in_help_and_docstring(name: str) -> None:
    declared = {option.name: option for option in command(name).params}
    for option in TEXT_DEFAULTS:
        assert declared[option].default is None
        assert f"Default: {OPTIONS[option]}." in (declared[option].help or "")  # type: ignore[attr-defined]
        assert f"Default: ``{OPTIONS[option]}``." in documented(api.search)[option]


@pytest.mark.parametrize("name", ["search", "plan"])
def test_every_option_of_a_search_belongs_to_a_group_of_its_help(name: str) -> None:
    for option in command(name).params:
        assert option.rich_help_panel in tuple(OptionGroup), option.name  # type: ignore[attr-defined]
        assert option.help, option.name  # type: ignore[attr-defined]


def test_the_package_offers_every_public_function() -> None:
    assert set(PUBLIC) <= set(advisor.__all__)
    assert all(unwrap(getattr(advisor, name)) is unwrap(getattr(api, name)) for name in PUBLIC)
