"""A search and what it leaves behind."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.core.decision import Decision
from advisor.core.evaluation import Evaluation
from advisor.store import RunFolder

if TYPE_CHECKING:
    from advisor.engine.space.forecast import PlanView
    from advisor.reporting.view import RunView


@dataclass(frozen=True)
class Run:
    """A finished or interrupted search, read from its folder.

    Attributes:
        path: the run folder.
        interrupted: it was stopped before its end.
        stopped: why it ended before every configuration was evaluated, empty where it did not.
    """

    path: Path
    interrupted: bool = False
    stopped: str = ""

    @cached_property
    def view(self) -> RunView:
        """Everything that a report shows."""
        from advisor.reporting.load import load_view

        return load_view(RunFolder.open(self.path))

    @property
    def evaluations(self) -> tuple[Evaluation, ...]:
        """Every configuration with what became of it."""
        return self.view.evaluations

    @property
    def decision(self) -> Decision:
        """The pick, its reason, the runner-up, ties and what would change it."""
        return self.view.decision

    @property
    def pick(self) -> Evaluation | None:
        """The recommended evaluation; the least-bad one where nothing meets the budget."""
        return self.decision.pick

    @property
    def report(self) -> Path:
        """The report to open in a browser."""
        return self.path / "report.html"

    def _repr_html_(self) -> str:
        from advisor.reporting.notebook import summary_html

        return summary_html(self.view)


def search(
    *,
    resume: str | Path | None = None,
    extend: str | None = None,
    verbose: bool = False,
    quiet: bool = False,
    **options: Any,
) -> Run:
    """Find the model to ship; options are those of :mod:`advisor.engine.question.options`, with their units.

    ::

        from advisor import search
        run = search(budget="50ms", data="photos")
        print(run.decision.reason, run.report)

    Args:
        resume: folder of a run to go on with; its own options are taken, and what failed is tried again.
        extend: go on for so much longer, such as ``30min``; only with ``resume``.
        verbose: show the libraries' own output instead of keeping it in ``log.txt``.
        quiet: show no progress.
        options: ``task``, ``budget``, ``data``, ``size_budget``, ``max_drop``, ``candidates``, ``seed``, ``out``, ...;
            ``request`` names a YAML file with the same keys.

    Raises:
        UsageError: an option, the pictures or the output folder is at fault; nothing was spent.
        WeightsError: no candidate's weights can be had.
    """
    from advisor.core.errors import UsageError
    from advisor.engine.history.diagnoses import diagnose_run
    from advisor.engine.progress import Progress
    from advisor.engine.question import resolve, resolve_resumed
    from advisor.engine.run import run_search
    from advisor.reporting.files import write_all

    named = options.pop("request", None)
    file = Path(named) if named else None
    folder = Path(resume) if resume is not None else None
    if folder is not None:
        request = resolve_resumed(RunFolder.open(folder).read_request(), options, file, extend)
    elif extend is not None:
        raise UsageError("--extend goes on with a run, and --resume names none", "add --resume runs/latest")
    else:
        request = resolve(options, file)
    outcome = run_search(request, Progress(False if quiet else None), folder, verbose)
    if outcome.stop.why != "interrupt":
        diagnose_run(outcome.run)
    run = Run(outcome.run.path, outcome.stop.why == "interrupt", outcome.stop.text if outcome.stop.early else "")
    write_all(run.view, run.path)
    return run


def plan(**options: Any) -> PlanView:
    """Say what a search with these options would do and what it would take; nothing is spent, nothing is connected to.

    ::

        from advisor import plan
        view = plan(budget="50ms", data="photos", time_limit="10min")
        print(view.price_s, [forecast.configuration.key for forecast in view.forecasts])

    Args:
        options: those of :func:`search`; ``request`` names a YAML file with the same keys.

    Raises:
        UsageError: what ``search`` would refuse before anything is spent.
    """
    from advisor.engine.question import resolve
    from advisor.engine.space.preview import preview

    file = options.pop("request", None)
    return preview(resolve(options, Path(file) if file else None))
