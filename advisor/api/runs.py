"""Search and plan."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from advisor.api.options import takes_options
from advisor.core.decision import Decision
from advisor.core.evaluation import Evaluation
from advisor.core.options import SEARCH, PlanOptions, SearchOptions
from advisor.store import RunFolder

if TYPE_CHECKING:
    import pandas as pd

    from advisor.engine.question import Request
    from advisor.engine.space.forecast import PlanView
    from advisor.reporting.view import RunView


@dataclass(frozen=True)
class Run:
    """A finished or interrupted search, read from its folder.

    Attributes:
        path: the run folder.
        interrupted: True if the user interrupted the search.
        stopped: why the search ended before every configuration was evaluated; empty if it did not.
    """

    path: Path
    interrupted: bool = False
    stopped: str = ""

    @cached_property
    def view(self) -> RunView:
        """The content of the report."""
        from advisor.reporting.view import load_view

        return load_view(RunFolder.open(self.path))

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
        """The recommended evaluation; the one closest to the limits if nothing meets the budget."""
        return self.decision.pick

    @property
    def report(self) -> Path:
        """Path of the report to open in a browser."""
        return self.path / "report.html"

    def to_frame(self) -> pd.DataFrame:
        """Return every evaluation as a row of a table.

        The unit is in the name of a column: ``latency_p90_ms``, ``size_bytes``, ``top1_percent``. Texts have the type
        ``str``, numbers ``float64``, whole numbers ``Int64`` and true or false ``boolean``; see ``docs/report.md``.
        """
        from advisor.reporting.frames import evaluations_frame

        return evaluations_frame(self.view, self.evaluations)

    def _repr_html_(self) -> str:
        from advisor.reporting.html import summary_html

        return summary_html(self.view)


@takes_options(SearchOptions)
def search(*, verbose: bool = False, quiet: bool = False, **options: Unpack[SearchOptions]) -> Run:
    """Find the model to ship: evaluate candidates under a budget and recommend one with its reasons.

    Every option is optional, and a list where the command line repeats it. Precedence: argument, request file, default.

    ::

        import advisor
        run = advisor.search(budget="50ms", data="photos")
        print(run.decision.reason, run.report)

    Args:
        verbose: show the output of the libraries instead of writing it to ``log.txt``.
        quiet: show no progress. Without it, standard error gets a bar, or lines if it is not a terminal.

    Raises:
        UsageError: an option, the images or the output folder is invalid. Nothing was spent.
        WeightsError: none of the candidates has weights that can be fetched.
    """
    _import_optuna()

    from advisor.engine.history.insights import diagnose_run
    from advisor.engine.progress import Progress, display
    from advisor.engine.run import run_search
    from advisor.reporting.files import write_all
    from advisor.reporting.phrases import so_far
    from advisor.reporting.view import load_view

    def answer(run: RunFolder) -> str:
        view = load_view(run, running=True)
        write_all(view, run.path)
        return so_far(view)

    folder = Path(resume) if (resume := options.get("resume")) is not None else None
    with Progress(None if quiet else display(), answer) as progress:
        outcome = run_search(_request(options), progress, folder, verbose)
        if outcome.stop.why != "interrupt":
            progress.say("finding where compressed forms lose accuracy")
            diagnose_run(outcome.run)
        progress.say("writing the report")
        run = Run(outcome.run.path, outcome.stop.why == "interrupt", outcome.stop.text if outcome.stop.early else "")
        write_all(run.view, run.path)
    return run


def _import_optuna() -> None:
    """Import Optuna without the warning of its progress bar, which misses widgets in a notebook and is not used."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "IProgress not found")
        import_module("optuna")


@takes_options(PlanOptions)
def plan(**options: Unpack[PlanOptions]) -> PlanView:
    """Return what a search with the same options would do and cost. Nothing is spent, no connection is opened.

    ::

        import advisor
        view = advisor.plan(budget="50ms", data="photos", time_limit="10min")
        print(view.price_s, [forecast.configuration.key for forecast in view.forecasts])

    Raises:
        UsageError: an option or the images are invalid, as in :func:`search`.
    """
    from advisor.engine.preview import preview

    return preview(_request(options))


def _request(given: Mapping[str, Any]) -> Request:
    """Return the request of a new run, or of one that continues.

    Args:
        given: options of :func:`search` or :func:`plan`, by name.

    Raises:
        UsageError: as :func:`search`.
    """
    from advisor.core.errors import UsageError
    from advisor.engine.history.loaded_run import located, stored_request
    from advisor.engine.question import resolve, resolve_resumed
    from advisor.engine.space.resolved import with_files

    options = {name: given.get(name) for name, option in SEARCH.items() if option.kept}
    file = Path(given["request"]) if given.get("request") else None
    resume, extend = given.get("resume"), given.get("extend")
    if resume is not None:
        run = RunFolder.open(Path(resume))
        return located(resolve_resumed(stored_request(run), options, file, extend), run)
    if extend is not None:
        raise UsageError("--extend continues a run, and --resume names none", "add --resume runs/latest")
    return with_files(resolve(options, file))
