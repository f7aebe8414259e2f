"""The public functions :func:`search` and :func:`plan`, and a demonstration of a search.

The commands of the same names, notebooks and users' programs call them. A search checks memory
and options first, hands the work to ``engine``, and writes the report of the run; its result is
a :class:`Run`, which reads the folder when it is asked.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from advisor._python import speak_python
from advisor.api._fleets import require_fleet
from advisor.core import (
    COMMAND_BEGAN,
    SEARCH,
    Decision,
    Evaluation,
    PlanOptions,
    SearchOptions,
    UsageError,
    takes_options,
)
from advisor.measurement import host
from advisor.store import RunFolder

if TYPE_CHECKING:
    import pandas as pd

    from advisor.engine import PlanView, Progress, Request
    from advisor.reporting import PhotographAnswer, RunView

PLAN_BYTES = (150_000_000, 550_000_000)
"""Memory and addresses that the smallest plan takes."""

SEARCH_BYTES = (850_000_000, 2_100_000_000)
"""Those that the smallest search takes, which converts one model at a time, by TensorFlow."""


@dataclass(frozen=True)
class Run:
    """A finished or interrupted search, read from its folder.

    Attributes:
        path: the run folder.
        interrupted: True if the user interrupted the search.
        stopped: why the search ended before every configuration was evaluated, and how many it
            left; empty if it did not.
        stop_reason: the same without how many it left, which an answer in words counts itself.
    """

    path: Path
    interrupted: bool = False
    stopped: str = ""
    stop_reason: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))  # users give a text

    @cached_property
    @speak_python
    def view(self) -> RunView:
        """The content of the report: the run is read, and its decision is made,
        when this is first asked for.
        """
        from advisor.reporting import RunView

        return RunView.load(RunFolder.open(self.path))

    @property
    def evaluations(self) -> tuple[Evaluation, ...]:
        """Every configuration with its result, or the reason why it has none."""
        return self.view.evaluations

    @property
    def decision(self) -> Decision:
        """The pick with its reason, the runner-up, the ties, and what would change the pick."""
        return self.view.decision

    @property
    def pick(self) -> Evaluation | None:
        """The recommended evaluation; if nothing meets the budget, the one closest to it."""
        return self.decision.pick

    @property
    def report(self) -> Path:
        """Path of the report to open in a browser."""
        return self.path / "report.html"

    @speak_python
    def to_frame(self) -> pd.DataFrame:
        """Return every evaluation as a row of a table.

        The unit is in the name of a column: ``latency_p90_ms``, ``size_bytes``, ``top1_percent``.
        Texts have the type ``str``, numbers ``float64``, whole numbers ``Int64`` and true or false
        ``boolean``; see ``docs/report.md``.
        """
        return self.view.to_frame()

    @speak_python
    def predict(self, photographs: Sequence[str | Path]) -> tuple[PhotographAnswer, ...]:
        """Return what the pick answers to photographs; see :func:`advisor.predict`."""
        from advisor.reporting import predict

        return predict(self.path, list(map(Path, photographs)))

    def _repr_html_(self) -> str:
        from advisor.reporting import summary_html

        return summary_html(self.view)


@takes_options(SearchOptions)
def search(*, verbose: bool = False, quiet: bool = False, **options: Unpack[SearchOptions]) -> Run:
    """Find the model to ship: evaluate candidates under a budget
    and recommend one with its reasons.

    Every option is optional, and a list where the command line repeats it. Precedence:
    argument, request file, default.

    ::

        import advisor
        run = advisor.search(budget="50ms", data="photos")
        print(run.decision.reason, run.report)

    Args:
        verbose: show the output of the libraries instead of writing it to ``log.txt``.
        quiet: show no progress. Without it, a notebook shows a cell with a bar, the answer so far
            and a plot; standard error gets a bar otherwise, or lines if it is not a terminal.

    Raises:
        UsageError: an option, the images or the output folder is invalid. Nothing was spent.
        WeightsError: none of the candidates has weights that can be fetched.
    """
    # A time limit counts from the command, whose imports take seconds on a slow machine.
    started = COMMAND_BEGAN.get() or time.monotonic()
    host.require_memory("a search", *SEARCH_BYTES)
    from advisor.engine import Progress, make_display

    in_notebook = None
    if not quiet and "IPython" in sys.modules:
        from advisor.reporting import cell

        in_notebook = cell()
    answer = partial(_answer_so_far, None if in_notebook is None else in_notebook.answer)
    display = None if quiet else in_notebook or make_display()
    with Progress(display, answer) as progress:
        # The other imports take a second of the processor:
        # first the user sees that the search begins.
        progress.say_start()
        _import_optuna()
        run = _search_and_report(options, progress, verbose, started)
        if in_notebook is not None:
            in_notebook.answer(run.view)
    return run


def _import_optuna() -> None:
    """Import Optuna without its warning that a notebook has no widgets for its progress bar,
    which is not used.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "IProgress not found")
        import_module("optuna")


def _search_and_report(
    options: SearchOptions, progress: Progress, verbose: bool, started: float
) -> Run:
    """Search, diagnose the compressed forms if there is time, and write the report."""
    from advisor.engine import diagnose_run, run_search
    from advisor.reporting import write_own

    resume = options.get("resume")
    folder = None if resume is None else Path(resume)
    outcome = run_search(_make_request(options), progress, folder, verbose, started)
    stop = outcome.stop
    # It takes seconds for each form, which nobody has who interrupted or set a limit.
    if not stop.lacked_time:
        progress.say("finding where compressed forms lose accuracy")
        diagnose_run(outcome.run)
    progress.say("writing the report")
    run = Run(outcome.run.path, stop.interrupted)
    if stop.early:
        run = replace(run, stopped=stop.text, stop_reason=stop.reason)
    # Answers so far were shown until here.
    # Reading the run makes the last decision, over all evaluations.
    write_own(outcome.run, run.view)
    return run


def _answer_so_far(show: Callable[[RunView], str] | None, run: RunFolder) -> str:
    """Write the reports of a search that goes on, and return its answer in a line;
    ``show`` shows it in a notebook.
    """
    from advisor.reporting import RunView, so_far, write_all

    # This runs in a thread, and the search adds results to its own folder meanwhile.
    # A folder remembers what it read, so each thread has one.
    view = RunView.load(RunFolder(run.path), running=True)
    write_all(view, run.path)
    return so_far(view) if show is None else show(view)


def memory_there() -> str:
    """Return in words how much memory is free on this machine, and how much a process may take."""
    return host.describe_memory()


def demonstrate(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Draw the images of a demonstration, and return the options of its search:
    those given, else its own.

    Raises UsageError: an option names other images, or the folder cannot be written.
    """
    from advisor.engine import prepare_demonstration

    return prepare_demonstration(options)


@takes_options(PlanOptions)
def plan(**options: Unpack[PlanOptions]) -> PlanView:
    """Return what a search with the same options would do and cost.
    Nothing is spent, no connection is opened.

    ::

        import advisor
        view = advisor.plan(budget="50ms", data="photos", time_limit="10min")
        print(view.price_s, [forecast.configuration.key for forecast in view.forecasts])

    Raises:
        UsageError: an option or the images are invalid, as in :func:`search`.
    """
    host.require_memory("a plan", *PLAN_BYTES)
    from advisor.engine import preview

    return preview(_make_request(options))


def _make_request(options: Mapping[str, Any]) -> Request:
    """Return the request of a new run, or of one that continues;
    a ``UsageError`` as of :func:`search`.
    """
    from advisor.engine import resolve, resume_request, with_files

    search_options = {}
    for name, option in SEARCH.items():
        if option.kept:
            search_options[name] = options.get(name)
    file = Path(options["request"]) if options.get("request") else None
    resume = options.get("resume")
    extend = options.get("extend")
    if resume is not None:
        return resume_request(Path(resume), search_options, file, extend)
    if extend is not None:
        raise UsageError(
            "--extend continues a run, and --resume names none", "add --resume runs/latest"
        )
    asked = with_files(resolve(search_options, file))
    if asked.question.fleet:
        # A fleet that cannot be read is an error before anything is spent.
        require_fleet(asked.question.fleet, asked.question.profiles)
    return asked
