"""The commands on finished runs: decide again (``report``), ask the pick (``predict``), and list
them (``runs``).

``_main.py`` registers them. Commands that compare two answers are in ``_comparisons.py``, those
for the bundle to ship in ``_bundles.py``.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from advisor.cli import _options as options
from advisor.cli._options import (
    annotations_of,
    argument,
    declare_options,
    option,
)
from advisor.cli._output import (
    check_place,
    log_run_to,
    note,
    print_document,
    print_json,
    progress,
    show_answer,
    warn_of_problems,
    write_sentences,
)
from advisor.core import (
    ExitCode,
    LimitOptions,
    UsageError,
    options_of,
    plural,
)


@declare_options(annotations_of(options_of(LimitOptions), defaults=False))
def report(
    run: options.RunArgument,
    *,
    images: Annotated[
        bool,
        option("", "Show images on which the pick errs in report.html.", "--images/--no-images"),
    ] = True,
    to: Annotated[
        str | None,
        option(
            "DIR", "Folder for the report files. Default: the run folder, if no limit changed."
        ),
    ] = None,
    force: Annotated[
        bool, option("", "Replace report files that exist in --to.", "--force")
    ] = False,
    brief: options.Brief = False,
    log_to: options.LogTo = None,
    sort: options.Sort = "",
    only: options.Filter = None,
    as_json: options.AsJson = False,
    **limits: Any,
) -> None:
    """Decide again from the measurements of a run, with other limits or another preference,
    and write the report.

    Nothing is measured or trained. Each limit that you leave out keeps the value of the run.
    Without any option, the report files of the run are written again. With other limits, the
    answer is printed, and written to --to if given.

    Example: advisor report runs/latest --prefer size --budget 30ms --to report-30ms
    """
    from advisor import api
    from advisor.reporting import make_answer_rows

    check_place(log_to)
    rows = make_answer_rows().select(sort, only)
    warn_of_problems(run, artefacts=True)
    with progress("deciding again and writing the report"):
        answer = api.report(run, images=images, to=to, force=force, **limits)
    show_answer(answer.view, as_json, rows, brief)
    for path in answer.files:
        note(f"wrote {path}")
    if not answer.files and to is None:
        note("the report of the run is unchanged; add --to DIR to write this one")
    log_run_to(Path(run), log_to)
    if not answer.view.decision.feasible:
        raise typer.Exit(ExitCode.UNSATISFIED)


def predict(
    run: options.RunArgument,
    photographs: Annotated[
        list[str] | None, argument("PHOTO...", "Files of photographs, or folders of them.")
    ] = None,
    to: Annotated[
        str | None,
        option("DIR", "Folder for copies on which the objects that were found are drawn."),
    ] = None,
    tiles: Annotated[
        int,
        option(
            "N", "Also run a detector on N x N tiles of each photograph, to find small objects."
        ),
    ] = 1,
    overlap: Annotated[
        float, option("SHARE", "Share of a tile's side that the next tile has, too.")
    ] = 0.2,
    as_json: options.AsJson = False,
) -> None:
    """Show what the pick of a run answers to photographs:
    the class or the objects, and how sure it is.

    A class whose probability is below the threshold of the run (--min-precision) is shown as
    unknown. Exit code 3: a photograph could not be read; the others are answered.

    Without photographs, --tiles says what tiles would gain on the images of the hold-out, and what
    they cost.

    Example: advisor predict runs/latest bottle.jpg can.jpg
    """
    from advisor import api
    from advisor.core import plain

    if not photographs:
        _show_tiles(run, tiles, overlap, to, as_json)
        return
    with progress("running the pick on the photographs"):
        predictions = api.predict(run, photographs, to, tiles, overlap)
    if as_json:
        print_document(predictions=[prediction.to_json() for prediction in predictions])
    else:
        for prediction in predictions:
            write_sentences(plain(f"{prediction.photograph}: {prediction.sentence}"))
    drawn = sum(not prediction.error for prediction in predictions)
    if to is not None and drawn:
        note(f"wrote {plural(drawn, 'copy', 'copies')} to {to}")
    if any(prediction.error for prediction in predictions):
        raise typer.Exit(ExitCode.UNSATISFIED)


def _show_tiles(run: str, tiles: int, overlap: float, to: str | None, as_json: bool) -> None:
    """Show what tiles gain on the hold-out of a run."""
    from advisor import api
    from advisor.core import plain

    if tiles == 1 or to is not None:
        raise UsageError(
            "PHOTO: no photograph is named",
            "name some; or judge tiles on the hold-out, with --tiles 2 and without --to",
        )
    with progress("running the pick on the hold-out, whole and in tiles"):
        comparison = api.judge_tiles(run, tiles, overlap)
    if as_json:
        print_json(comparison.to_json())
        return
    for line in comparison.lines:
        write_sentences(plain(line))


def runs(
    folder: Annotated[str, argument("DIR", "Folder of the runs.")] = "runs",
    sort: options.Sort = "",
    only: options.Filter = None,
    as_json: options.AsJson = False,
) -> None:
    """List runs, the newest first: their state, and the pick with its accuracy, latency and size.

    Example: advisor runs --filter state=finished
    """
    from advisor import api
    from advisor.reporting import make_run_rows, print_runs

    rows = make_run_rows().select(sort, only)
    shown = rows.of(api.list_runs(folder))
    if as_json:
        print_document(runs=[make_run_rows().row(row) for row in shown])
    else:
        print_runs(shown)
