"""The commands that compare an answer with an earlier one: compare, reevaluate and update.

Their exit codes are a contract with scripts: 4 says that the recommendation changed or got worse,
or that the earlier file is to be kept. ``_main.py`` registers the commands.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer

from advisor.cli import _options as options
from advisor.cli._options import (
    annotations_of,
    argument,
    complete_runs,
    declare_options,
    option,
)
from advisor.cli._output import (
    QUIET,
    print_document,
    print_json,
    progress,
    warn_of_problems,
    write_sentences,
)
from advisor.core import ExitCode, ReevaluateKeywords, UsageError, nearest, options_of

FORMATS = ("text", "markdown", "json")
"""Formats of what ``advisor compare`` and ``advisor reevaluate`` print."""

RESULT_COLUMNS = {
    "run": "parent",
    "device": "device",
    "result": "comparison.result",
    "changed": "changed",
    "error": "error",
}
"""Columns of the results of re-evaluations, by which users sort and filter."""


def compare(
    before: Annotated[str, argument("RUN", "Folder of the earlier run.", complete_runs)],
    after: Annotated[str, argument("RUN", "Folder of the later run.", complete_runs)],
    form: options.Format = "text",
    sort: options.Sort = "",
    only: options.Filter = None,
    as_json: options.AsJson = False,
) -> None:
    """Show what changed between two runs:
    question, data, catalogue, devices, versions, figures, recommendation.

    Exit code 4: the recommendation changed, or got worse by more than the noise of its figures. 3:
    the later run ended before its first result. 0: it did not change, or a measurement
    corrected a prediction within the budget.

    Example: advisor compare runs/20260131-120000-photos runs/latest --format markdown
    """
    from advisor import api
    from advisor.reporting import FIGURES, render_comparison

    # Before the runs are read, so that a wrong option costs no time.
    form = _choose_format(form, as_json)
    rows = FIGURES.select(sort, only)
    for run in (before, after):
        warn_of_problems(run)
    with progress("comparing the runs"):
        comparison = api.compare(before, after)
    # Only the table is filtered. The exit code below depends on all figures.
    comparison = replace(comparison, figures=rows.of(comparison.figures))
    if form == "json":
        print_json(comparison.to_json())
    else:
        write_sentences(render_comparison(comparison, form).removesuffix("\n"))
    if comparison.recommends_otherwise:
        raise typer.Exit(ExitCode.CHANGED)
    if comparison.incomplete:
        raise typer.Exit(ExitCode.UNSATISFIED)


def update(
    run: options.RunArgument,
    data: Annotated[str, option("DIR", "Folder or manifest of the new images, labelled.")],
    search_again: Annotated[
        bool,
        option(
            "",
            "Ask the question of the run again, with all its candidates, not the pick alone.",
            "--search",
        ),
    ] = False,
    time_limit: Annotated[
        str | None, option("TIME", "Most time, such as 3min. Default: that of the run.")
    ] = None,
    out: Annotated[
        str | None, option("DIR", "Folder of the new run. Default: that of the earlier one.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Learn from more images, and say whether the new file should take the place
    of the earlier one.

    The new images may be of old classes, of new ones, or have corrected labels. The pick of the
    run is trained again with old and new images. Both files are judged on the old hold-out, and on
    new images that neither learnt from. Where an image may have several labels or boxes, one that
    the table of the run does not name is unknown in its images, not absent.

    Exit code 4: keep the old file. 0: ship the new one.

    Example: advisor update runs/latest --data more/
    """
    from advisor import api
    from advisor.core import plain

    warn_of_problems(run)
    answer = api.update(
        run, data, search_again=search_again, time_limit=time_limit, out=out, quiet=QUIET.get()
    )
    if as_json:
        print_json(answer.to_json())
    else:
        for line in answer.lines:
            write_sentences(plain(line))
    if not answer.ship:
        raise typer.Exit(ExitCode.CHANGED)


@dataclass(frozen=True)
class ReevaluateOptions:
    """The options of ``advisor reevaluate``."""

    every: Annotated[
        bool, option("", "Answer every search in --runs instead of one run.", "--all")
    ] = False
    runs: Annotated[str, option("DIR", "Folder of the runs.")] = "runs"
    fleet: Annotated[
        str | None,
        option(
            "FILE",
            "Answer one run for this fleet of phones (CSV, or phones-2026), and for nothing else.",
        ),
    ] = None
    since_last: Annotated[
        bool,
        option(
            "",
            "Compare with the latest answer to each run: shows only what is new.",
            "--since-last",
        ),
    ] = False
    form: options.Format = "text"
    sort: options.Sort = ""
    only: options.Filter = None
    as_json: options.AsJson = False


@declare_options(annotations_of(options_of(ReevaluateKeywords)))
def reevaluate(
    run: Annotated[
        str | None, argument("RUN", "A run folder, such as runs/latest.", complete_runs)
    ] = None,
    *,
    asked: ReevaluateOptions,
    **shared: Any,
) -> None:
    """Answer earlier runs again after a change of devices, runtime, this machine or the catalogue.

    Only missing figures are measured or predicted, and nothing is trained. On a device that is
    connected (--adb, --ssh, the connection of its profile, or a cloud with --upload), the files
    are measured that may become the pick. If it is away, its latencies stay. Each new answer is a
    new run that names its parent.

    Exit code 4: a recommendation changed or got worse. 3: the run has no result. 0: none changed.

    Example: advisor reevaluate --all --device raspberry-pi-4
    """
    from advisor import api
    from advisor.reporting import Rows, render_reevaluations

    form = _choose_format(asked.form, asked.as_json)
    rows = Rows.of_paths(RESULT_COLUMNS).select(asked.sort, asked.only)
    if asked.every == (run is not None):
        problem = "a run and --all exclude each other" if asked.every else "no run is given"
        raise UsageError(
            problem,
            "name one run, or --all: advisor reevaluate runs/latest, or advisor reevaluate --all",
        )
    if run is not None:
        warn_of_problems(run)
    if asked.fleet is not None:
        _reevaluate_fleet(run, asked, shared, form)
        return
    with progress("reading the runs") as tell:
        results = api.reevaluate(
            run, runs=asked.runs, since_last=asked.since_last, tell=tell, **shared
        )
    shown = rows.of(results)
    if form == "json":
        changed = sum(result.changed for result in shown)
        print_document(changed=changed, results=[result.to_json() for result in shown])
    else:
        write_sentences(render_reevaluations(shown, form).removesuffix("\n"))
    if any(result.changed for result in results):
        raise typer.Exit(ExitCode.CHANGED)
    if run is not None and any(result.error for result in results):
        raise typer.Exit(ExitCode.UNSATISFIED)


def _reevaluate_fleet(
    run: str | None, asked: ReevaluateOptions, shared: Mapping[str, Any], form: str
) -> None:
    from advisor import api

    if run is None or any(shared.values()) or asked.since_last:
        raise UsageError(
            "--fleet answers one run for a fleet, and takes no --all or --since-last, and no"
            " device",
            "write for example advisor reevaluate runs/latest --fleet fleet.csv",
        )
    with progress("predicting the files on the fleet"):
        change = api.reevaluate_fleet(run, asked.fleet or "")
    if form == "json":
        print_json(change.to_json())
    else:
        for sentence in (
            *change.sentences,
            f"Next: advisor export {change.run} --to bundle --tiers",
        ):
            write_sentences(sentence)
    if change.changed:
        raise typer.Exit(ExitCode.CHANGED)


def _choose_format(form: str, as_json: bool) -> str:
    """Return the output format; ``--json`` is short for ``--format json``. Raises UsageError:
    an unknown name.
    """
    if form not in FORMATS:
        raise UsageError(
            f"--format: unknown '{form}'{nearest(form, FORMATS)}", f"one of: {', '.join(FORMATS)}"
        )
    return "json" if as_json else form
