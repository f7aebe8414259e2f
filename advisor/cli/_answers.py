"""Commands on finished runs: ``report``, ``export``, ``compare`` and ``reevaluate``."""

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from advisor.cli import _options as options
from advisor.cli._options import (
    annotations_of,
    argument,
    complete_runs,
    completion_of,
    declare_options,
    option,
)
from advisor.cli._output import (
    QUIET,
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
    LIMITS,
    ExitCode,
    ReevaluateKeywords,
    UsageError,
    nearest,
    options_of,
    plural,
)

PLATFORMS = ("android", "ios", "python", "edgetpu", "microcontroller", "coreml", "tiers")
"""The flags of ``advisor export`` that replace the usual platforms."""

PAGE = "web/index.html"

FORMATS = ("text", "markdown", "json")
"""Formats of what ``advisor compare`` and ``advisor reevaluate`` print."""


@declare_options(annotations_of(LIMITS, defaults=False))
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


@dataclass(frozen=True)
class ExportOptions:
    """The options of ``advisor export``."""

    to: Annotated[str | None, option("DIR", "Folder to create.")] = None
    pick: Annotated[
        str | None,
        option(
            "CANDIDATE",
            "Candidate to ship: its number in --list, or its key. Default: the pick of the run.",
        ),
    ] = None
    android: Annotated[bool, option("", "Add Kotlin code for an app.", "--android")] = False
    ios: Annotated[bool, option("", "Add Swift code for an app.", "--ios")] = False
    python: Annotated[bool, option("", "Add a Python program.", "--python")] = False
    edgetpu: Annotated[
        bool, option("", "Add a program for a Coral Edge TPU (int8 only).", "--edgetpu")
    ] = False
    web: Annotated[
        bool | None,
        option(
            "",
            "Add the web page that tries the model: 8 MB and 4/3 of the model. Default: if its"
            " runtime can be fetched.",
            "--web/--no-web",
        ),
    ] = None
    coreml: Annotated[
        bool,
        option(
            "", "Add a Core ML package of the float classifier. It is not run here.", "--coreml"
        ),
    ] = False
    microcontroller: Annotated[
        bool,
        option(
            "", "Add C++ for TensorFlow Lite Micro: model, arena, operators.", "--microcontroller"
        ),
    ] = False
    tiers: Annotated[
        bool,
        option(
            "",
            "Add the files for the fleet of the run, with selectors for apps in four languages.",
            "--tiers",
        ),
    ] = False
    tier_count: Annotated[
        int,
        option(
            "N",
            "With --tiers: number of files, 1 to 3. Default: the recommended number.",
            "--tier-count",
        ),
    ] = 0
    unknown_class: Annotated[
        bool,
        option(
            "",
            "Add a class 'unknown' for images of things outside the other classes (pick only).",
            "--unknown-class",
        ),
    ] = False
    sign: Annotated[
        str | None,
        option(
            "KEY", "Private Ed25519 key in PEM that signs the bundle; check.py --key verifies it."
        ),
    ] = None
    force: Annotated[bool, option("", "Replace a bundle that exists.", "--force")] = False
    show: Annotated[
        bool, option("", "Show the candidates that --pick takes, and write nothing.", "--list")
    ] = False
    sort: options.Sort = ""
    only: options.Filter = None
    as_json: options.AsJson = False


def export(run: options.RunArgument, *, asked: ExportOptions) -> None:
    """Write the bundle to ship: model, labels, model card, test vectors, checksums,
    code for the app, a page to try it.

    Without an option for a platform, --android, --ios and --python are used.
    The same run gives the same bytes.

    Example: advisor export runs/latest --to bundle --android
    """
    from advisor import api

    warn_of_problems(run)
    if asked.show:
        _show_exportable(run, asked.sort, asked.only, asked.as_json)
        return
    # Without a table the two would have no effect, which the user might not notice.
    if asked.sort or asked.only:
        raise UsageError("--sort and --filter need --list", "add --list, or leave them out")
    if asked.to is None:
        raise UsageError("--to is missing", "name the folder to create, for example --to bundle")
    targets = [name for name in PLATFORMS if getattr(asked, name)]
    if asked.tier_count and not asked.tiers:
        raise UsageError("--tier-count needs --tiers", "add --tiers, or leave it out")
    with progress("writing and checking the bundle"):
        bundle = api.export(
            run,
            asked.to,
            pick=asked.pick,
            targets=targets,
            force=asked.force,
            unknown_class=asked.unknown_class,
            web=asked.web,
            sign=asked.sign,
            tiers=asked.tier_count,
        )
    if bundle.without_page:
        note(bundle.without_page)
    configuration = bundle.evaluation.configuration
    edits = bundle.model.edits
    if asked.as_json:
        facts = {
            "files": list(bundle.files),
            "edits": list(edits),
            "without_page": bundle.without_page,
        }
        print_document(key=configuration.key, path=str(bundle.path), **facts)
        return
    typer.echo(f"wrote {configuration.name} to {bundle.path} ({len(bundle.files)} files)")
    for edit in edits:
        typer.echo(f"for MediaPipe: {edit}; the file without this edit is beside it")
    if PAGE in bundle.files:
        typer.echo(f"Try it: open {bundle.path}/{PAGE} in a browser")
    # Another Python may lack the runtime, and many systems have no command of this name.
    typer.echo(f"Next: {shlex.join([sys.executable, f'{bundle.path}/check.py'])}")


def _show_exportable(run: str, sort: str, only: list[str] | None, as_json: bool) -> None:
    from advisor import api
    from advisor.core import plain
    from advisor.reporting import make_candidate_rows

    rows = make_candidate_rows().select(sort, only)
    candidates = api.exportable(run)
    # Counted before rows are left out or sorted, because --pick counts the whole list.
    number = {
        candidate.configuration.key: count for count, candidate in enumerate(candidates, start=1)
    }
    shown = {
        candidate.configuration.key: candidate.describe_figures()
        for candidate in rows.of(candidates)
    }
    if as_json:
        print_document(
            candidates=[{"key": key, "description": text} for key, text in shown.items()]
        )
        return
    if not candidates:
        typer.echo("The run has no candidate with a file.")
    for key, text in shown.items():
        typer.echo(plain(f"{number[key]}  {text}  {key}"))


def predict(
    run: options.RunArgument,
    photographs: Annotated[
        list[str], argument("PHOTO...", "Files of photographs, or folders of them.")
    ],
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

    Example: advisor predict runs/latest bottle.jpg can.jpg
    """
    from advisor import api
    from advisor.core import plain

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
    the later run ended before its first result. 0: it did not change.

    Example: advisor compare runs/20260131-120000-photos runs/latest --format markdown
    """
    from advisor import api
    from advisor.reporting import FIGURES, render_comparison

    # Before the runs are read, so that a wrong option costs no time.
    form = _format(form, as_json)
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
    new images that neither learnt from.

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
    **given: Any,
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
    from advisor.reporting import RESULTS, render_reevaluations

    form = _format(asked.form, asked.as_json)
    rows = RESULTS.select(asked.sort, asked.only)
    if asked.every == (run is not None):
        problem = "a run and --all exclude each other" if asked.every else "no run is given"
        raise UsageError(
            problem,
            "name one run, or --all: advisor reevaluate runs/latest, or advisor reevaluate --all",
        )
    if run is not None:
        warn_of_problems(run)
    if asked.fleet is not None:
        _reevaluate_fleet(run, asked, given, form)
        return
    with progress("reading the runs") as tell:
        results = api.reevaluate(
            run, runs=asked.runs, since_last=asked.since_last, tell=tell, **given
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
    run: str | None, asked: ReevaluateOptions, given: Mapping[str, Any], form: str
) -> None:
    from advisor import api

    if run is None or any(given.values()) or asked.since_last:
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


def verify(
    device: Annotated[str, argument("DEVICE", "Name of the device.", completion_of("device"))],
    bundle: Annotated[
        str, argument("BUNDLE", "Folder of a bundle that was exported with --tiers.")
    ],
    ssh: Annotated[
        str, option("HOST", "Connect over ssh. Default: the connection of the device's profile.")
    ] = "",
    adb: Annotated[
        str, option("SERIAL", "Connect over adb, which times the files and runs no test vectors.")
    ] = "",
    python: Annotated[
        str, option("PATH", "Python interpreter of the device that has a TFLite runtime.")
    ] = "python3",
    benchmark_model: Annotated[
        str | None, option("PATH", "TensorFlow Lite's benchmark_model, for --adb.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Run the test vectors of the files of a fleet on a device, and time each file there.

    Exit code 3: a file computes something else,
    or the one that the selector chooses misses the budget.

    Example: advisor verify raspberry-pi-4 bundle --ssh pi@board.local
    """
    from advisor import api
    from advisor.devices import ConnectionSettings

    settings = ConnectionSettings.from_options(ssh, adb, False, python, benchmark_model)
    with progress("running the files on the device"):
        verification = api.verify(device, bundle, connection=settings)
    if as_json:
        print_json(verification.to_json())
    else:
        for sentence in verification.sentences:
            write_sentences(sentence)
    if not verification.good:
        raise typer.Exit(ExitCode.UNSATISFIED)


def _format(form: str, as_json: bool) -> str:
    """Return the output format; ``--json`` is short for ``--format json``. Raises UsageError:
    an unknown name.
    """
    if form not in FORMATS:
        raise UsageError(
            f"--format: unknown '{form}'{nearest(form, FORMATS)}", f"one of: {', '.join(FORMATS)}"
        )
    return "json" if as_json else form
