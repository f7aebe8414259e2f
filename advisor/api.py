"""The public functions behind the commands; at home in a script and in a notebook."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.core.decision import Decision
from advisor.core.evaluation import Evaluation
from advisor.store import RunFolder

if TYPE_CHECKING:
    from advisor.report.view import RunView


@dataclass(frozen=True)
class Run:
    """A finished or interrupted search, read from its folder.

    Attributes:
        path: the run folder.
        interrupted: it was stopped before its end.
    """

    path: Path
    interrupted: bool = False

    @cached_property
    def view(self) -> RunView:
        """Everything that a report shows."""
        from advisor.report.load import load_view

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
        from advisor.report.notebook import summary_html

        return summary_html(self.view)


def search(*, resume: str | Path | None = None, verbose: bool = False, quiet: bool = False, **options: Any) -> Run:
    """Find the model to ship; options are those of :class:`advisor.search.request.Request`, with their units.

    ::

        from advisor import search
        run = search(budget="50ms", data="photos")
        print(run.decision.reason, run.report)

    Args:
        resume: folder of an interrupted run to go on with; its own options are taken.
        verbose: show the libraries' own output instead of keeping it in ``log.txt``.
        quiet: show no progress.
        options: ``task``, ``budget``, ``data``, ``size_budget``, ``max_drop``, ``candidates``, ``seed``, ``out``, ...;
            ``request`` names a YAML file with the same keys.

    Raises:
        UsageError: an option, the pictures or the output folder is at fault; nothing was spent.
        WeightsError: no candidate's weights can be had.
    """
    from advisor.report.files import write_all
    from advisor.search.progress import Progress
    from advisor.search.request import resolve
    from advisor.search.run import run_search

    file = options.pop("request", None)
    if resume is not None:
        stored = RunFolder.open(Path(resume)).read_request()
        request = resolve({key: value for key, value in stored.items() if key != "schema_version"})
    else:
        request = resolve(options, Path(file) if file else None)
    outcome = run_search(request, Progress(False if quiet else None), Path(resume) if resume else None, verbose)
    run = Run(outcome.run.path, outcome.interrupted)
    write_all(run.view, run.path)
    return run
