"""An option as a value, and tables of options made from typed dictionaries.

A dictionary such as :class:`.SearchOptions` declares each option by its name, its type and an
:class:`Option`. Commands, public functions, request files and the generated pages read the tables.
The module also bounds each count (:data:`BOUNDS`), however it is given.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType, NoneType
from typing import Any, TypeVar, cast, get_args, get_type_hints

from advisor.core import _units as units
from advisor.core._errors import UsageError

Text = str | None

Place = str | Path | None

Texts = str | Sequence[str] | None

Names = Sequence[str] | None

Places = Sequence[str | Path] | None

Counts = Sequence[int | str] | None

Number = int | None

Flag = bool | None

Numbers = Sequence[float] | None

BOUNDS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        "input_size": (16, 2048),
        "max_trials": (0, 1_000_000),
        "measure": (0, 1000),
        "models": (1, 50),
        "runs": (1, 10_000),
        "seed": (0, units.MOST_WHOLE),
        "threads": (1, 64),
        "tiers": (0, 3),
        "tune_training": (0, 100),
        "workers": (0, 1000),
    }
)
"""Least and largest value of each count, whether an option, a request file or a function gives
it.
"""


class OptionGroup(StrEnum):
    """Titles of the groups of options, in the order of the help."""

    QUESTION = "Question"
    CANDIDATES = "Candidates"
    TRAINING = "Training and compression"
    DEVICES = "Devices"
    RUNNING = "Running"
    OUTPUT = "Output"


@dataclass(frozen=True)
class Option:
    """One option of a search, without its name and type."""

    group: str  #: title of its group
    metavar: str  #: what stands for its value in the help; empty for a flag
    text: str  #: what it sets, with its unit
    default: Any = None  #: value if it is not given; None for the empty value of its type
    #: what happens if it is not given, for the help; None for ``default``
    usual: str | None = None
    choices: tuple[str, ...] = ()  #: the names that it takes; other ones too if it is parsed
    #: what turns a text that is given, and the option's name on the command line, into a value.
    parse: Callable[[Any, str], Any] | None = None
    joined: bool = False  #: it may be repeated, or its values joined by commas
    first: bool = False  #: the short help shows it
    free: bool = False  #: a resumed run may change it, because it does not change what is asked
    kept: bool = True  #: a request file may give it

    @property
    def help(self) -> str:
        """The text with the default."""
        usual = str(self.default or "") if self.usual is None else self.usual
        return f"{self.text} Default: {usual}." if usual else self.text


Table = Mapping[str, Option]


Keywords = TypeVar("Keywords")


def table_of(declared: type) -> Table:
    """Return each option of a typed dictionary by its name,
    with the default that its type has if it states none.
    """
    hints = get_type_hints(declared, include_extras=True)
    return MappingProxyType({name: _with_default(*get_args(hint)) for name, hint in hints.items()})


def _with_default(kind: Any, option: Option) -> Option:
    if option.default is not None:
        return option
    kinds = {member for member in get_args(kind) if member is not NoneType}
    empty: object = ()
    if kinds == {int}:
        empty = 0
    elif kinds == {bool}:
        empty = False
    elif kinds <= {str, Path}:
        empty = ""
    return replace(option, default=empty)


def options_of(declared: type, *without: str) -> Table:
    """Return the options of a typed dictionary ``without`` those that a command declares."""
    return {name: option for name, option in table_of(declared).items() if name not in without}


def defaults_of(declared: type) -> Mapping[str, Any]:
    """Return the default of each key of a typed dictionary, as it is stated."""
    hints = get_type_hints(declared, include_extras=True)
    return {name: get_args(hint)[1].default for name, hint in hints.items()}


def completed(declared: type[Keywords], values: Mapping[str, Any]) -> Keywords:
    """Return a typed dictionary with the stated default of each key that is not given."""
    return cast("Keywords", {**defaults_of(declared), **values})


def parse_path(text: str | Path, _option: str) -> Path:
    """Return the path that a text names."""
    return Path(text)


def parse_paths(texts: Sequence[str | Path], _option: str) -> tuple[Path, ...]:
    """Return the paths that texts name."""
    return tuple(map(Path, texts))


def parse_count(name: str, value: object, shown: str = "") -> int:
    """Return a count within its :data:`BOUNDS`;
    UsageError for another value, which ``shown`` can name otherwise.
    """
    least, most = BOUNDS[name]
    number = units.whole_number(str(value), most)
    if number is None or number < least:
        # A name without dashes is a key of a request file, and the hint says what to type.
        example = shown if shown.startswith("--") else show_flag(name)
        raise UsageError(
            f"{shown or show_flag(name)}: '{value}' is not a whole number from {least} to {most}",
            f"write for example {example} {max(least, 1)}",
        )
    return number


def show_flag(name: str) -> str:
    """Return an option as the command line writes it."""
    return f"--{name.replace('_', '-')}"
