"""Errors that a user can act on, and the exit codes of the commands.

Every message names what happened and the value at fault, and the hint says what to do. Exit codes
are a contract with scripts (``docs/design.md``, "Exit codes"). Errors travel from child processes
by pickle: an error with other arguments than a message and a hint needs its own ``__reduce__``.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from enum import IntEnum
from importlib.util import find_spec
from pathlib import Path

NO_TENSORFLOW = (3, 14)
"""First version of Python that the TensorFlow of the extra ``train`` does not have."""

CONVERT_AGAIN = "convert it again, or export its model to ONNX: advisor catalog add model.onnx"
"""The hint of errors about a ``.tflite`` file that LiteRT cannot run."""

WITH_TENSORFLOW = frozenset({"all", "hub", "onnx", "ray", "slurm", "torch", "train"})
"""Extras that bring TensorFlow."""

CHECKOUT = Path(__file__).resolve().parents[2]
"""Folder of the source if the package runs from a checkout;
of an installed wheel, where packages lie.
"""


class ExitCode(IntEnum):
    """The exit codes of the commands: one meaning each, the same for every command.

    Attributes:
        OK: the command did what it was asked for. For ``search`` and ``report``: a pick meets the
            budget.
        INTERNAL_ERROR: a bug in advisor, or a failed stage without which there is no result.
        USAGE: the options, the configuration, the data or the machine (``doctor``) are at fault.
            Nothing was spent.
        UNSATISFIED: completed only partly or without a result: nothing meets the budget, a file or
            a device could not be measured, no compressed file is accurate enough, or some weights
            could not be fetched. The results so far are kept.
        CHANGED: a recommendation changed or got worse. For ``update``: the earlier file is to be
            kept.
        INTERRUPTED: interrupted by the user. The state is saved.
    """

    OK = 0
    INTERNAL_ERROR = 1
    USAGE = 2
    UNSATISFIED = 3
    CHANGED = 4
    INTERRUPTED = 130


class AdvisorError(Exception):
    """Base of every error that the command line shows without a traceback.

    ``message`` is one sentence that names the thing and the value at fault;
    ``hint`` says what the user can do, or is empty.
    """

    exit_code: int = ExitCode.INTERNAL_ERROR

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[type[AdvisorError], tuple[str, str]]:
        return type(self), (self.message, self.hint)

    def _render_traceback_(self) -> list[str]:
        """Return what a notebook shows in place of a traceback (IPython asks for it)."""
        if str(self) != self.message:  # in the words of Python, with the hint
            return f"{type(self).__name__}: {self}".splitlines()
        hints = [f"hint: {self.hint}"] if self.hint else []
        return [
            f"{type(self).__name__}: {self.message}",
            *hints,
        ]


class UsageError(AdvisorError):
    """A wrong flag, request, catalogue, profile or data folder: exit code 2, nothing spent.
    It has a hint.
    """

    exit_code = ExitCode.USAGE

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message, hint)


@dataclass(frozen=True)
class Reading:
    """One of the ways in which an input can be read."""

    options: Mapping[str, str]  # what chooses it: values of options by their names without dashes
    meaning: str  # what the command does then

    @property
    def shown(self) -> str:
        """The options as a person types them."""
        return " ".join(f"--{name} {shlex.quote(value)}" for name, value in self.options.items())


class AmbiguousInput(UsageError):
    """An input that can be read in more than one way, or in one way that the user must confirm.

    The command line asks which reading is meant if somebody is at the terminal.
    The hint has the options of all.
    """

    def __init__(self, message: str, readings: Sequence[Reading], otherwise: str = "") -> None:
        ways = [f"{reading.shown} ({reading.meaning})" for reading in readings]
        if otherwise:
            ways.append(otherwise)
        super().__init__(message, f"write {' or '.join(ways)}")
        self.readings = tuple(readings)
        self.otherwise = otherwise

    def __reduce__(self) -> tuple[type[AmbiguousInput], tuple[str, tuple[Reading, ...], str]]:  # type: ignore[override]
        return type(self), (self.message, self.readings, self.otherwise)


class Problems:
    """Collects the errors of one file, so that the user sees all of them at once."""

    def __init__(self) -> None:
        self._errors: list[UsageError] = []

    def add(self, error: UsageError) -> None:
        """Keep an error, or each error of several."""
        parts = error.parts if isinstance(error, SeveralErrors) else [error]
        self._errors.extend(parts)

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Keep a ``UsageError`` that is raised inside, and go on after the block."""
        try:
            yield
        except UsageError as error:
            self.add(error)

    def raise_any(self) -> None:
        """Raise what was kept, if anything.

        Raises UsageError: one error was kept. SeveralErrors: several were.
        """
        if len(self._errors) > 1:
            raise SeveralErrors(self._errors)
        if self._errors:
            raise self._errors[0]


class SeveralErrors(UsageError):
    """Several errors of one file: one line each."""

    SHOWN = 20

    def __init__(self, parts: Sequence[UsageError]) -> None:
        lines = []
        for part in parts[: self.SHOWN]:
            hint = f" ({part.hint})" if part.hint else ""
            lines.append(f"{part.message}{hint}")
        more = []
        if len(parts) > self.SHOWN:
            more = [f"... and {len(parts) - self.SHOWN} more"]
        listed = "\n".join(f"  {line}" for line in (*lines, *more))
        super().__init__(
            f"{len(parts)} errors:\n{listed}", "correct these lines, and give the file again"
        )
        self.parts = tuple(parts)

    def __reduce__(self) -> tuple[type[SeveralErrors], tuple[tuple[UsageError, ...]]]:  # type: ignore[override]
        return type(self), (self.parts,)


class WeightsError(AdvisorError):
    """Weights that cannot be fetched, do not match their hash or cannot be read: exit code 2."""

    exit_code = ExitCode.USAGE


class StageError(AdvisorError):
    """One stage of one candidate failed: becomes an evaluation with status ``failed``."""

    # First words of the message where a signal ended the process, before the signal's name.
    _CRASHED = "crashed with"

    @classmethod
    def from_signal(cls, signal: str) -> StageError:
        """Return the error of a process that a signal, such as ``SIGSEGV``, ended;
        not of one that memory ended.
        """
        return cls(f"{cls._CRASHED} {signal}")

    @property
    def is_crash(self) -> bool:
        """True if a signal ended the process."""
        return self.message.startswith(self._CRASHED)

    def blame_file(self, name: str, hint: str = "") -> UsageError:
        """Return the error of a user who gave a file that cannot be run.

        Args:
            name: the file, for a message that does not name it.
            hint: what to do where this error does not know it.
        """
        message = self.message if name in self.message else f"{name}: {self.message}"
        return UsageError(message, self.hint or hint or CONVERT_AGAIN)


class UnsupportedRecipe(StageError):
    """A recipe that does not apply to this model: becomes a ``skipped`` evaluation."""


class RuntimeRefusal(StageError):
    """The installed runtime cannot load or run a file: becomes a ``skipped`` evaluation."""


class ContentError(ValueError):
    """The content of a file cannot be used.
    Its text says why in our words, so that people can be shown it.
    """


def message_of(error: BaseException) -> str:
    """Return the first line of an error's message; the name of its class if it has no message."""
    return first_line(str(error)) or type(error).__name__


def first_line(text: str) -> str:
    """Return the first line of a text that is not empty, at most 300 characters;
    empty if there is none.
    """
    return next(iter(_list_lines(text)), "")[:300]


def last_line(text: str) -> str:
    """Return the last line of a text that is not empty, at most 300 characters;
    empty if there is none.
    """
    return next(reversed(_list_lines(text)), "")[:300]


def _list_lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def nearest(value: str, valid: Iterable[str]) -> str:
    """Return `` (did you mean 'x'?)`` for the valid name closest to ``value``; empty for none."""
    by_folded_name = {name.casefold(): name for name in valid}
    matches = get_close_matches(value.casefold(), list(by_folded_name), n=1, cutoff=0.55)
    if matches:
        return f" (did you mean '{by_folded_name[matches[0]]}'?)"
    return ""


def install_extra(extra: str) -> str:
    """Return the command that installs an optional part,
    in a checkout or beside an installed wheel.

    ``advisor`` alone is another project on the package index. Where TensorFlow has no version for
    this Python, the text says which ones it has.
    """
    if extra in WITH_TENSORFLOW and sys.version_info >= NO_TENSORFLOW:
        newest = f"{NO_TENSORFLOW[0]}.{NO_TENSORFLOW[1] - 1}"
        return f"TensorFlow 2.21 needs Python 3.11 to {newest}: install advisor in one of these"
    if (CHECKOUT / "pyproject.toml").is_file():
        return f"pip install -e '.[{extra}]' in the source folder"
    return f"pip install 'ondevice-advisor[{extra}]'"


def require_extra(package: str, extra: str, message: str) -> None:
    """Refuse what needs an optional package that is not installed, without importing it:
    UsageError with a hint.
    """
    if find_spec(package) is None:
        raise UsageError(message, install_extra(extra))


def require_training(what: str) -> None:
    """Refuse what trains or converts models if TensorFlow is not installed:
    UsageError with a hint.
    """
    require_extra("tensorflow", "train", f"{what} needs TensorFlow, which is not installed")
