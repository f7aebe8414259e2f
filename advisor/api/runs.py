"""Search and plan."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from advisor.api.options import takes_options
from advisor.api.run import Run
from advisor.core.options import SEARCH, PlanOptions, SearchOptions
from advisor.store import RunFolder

if TYPE_CHECKING:
    from advisor.engine.question import Request
    from advisor.engine.space.forecast import PlanView


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

    from advisor.engine.display import display
    from advisor.engine.history.diagnoses import diagnose_run
    from advisor.engine.progress import Progress
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
    from advisor.engine.history.inputs import located
    from advisor.engine.history.loaded_run import stored_request
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
