"""The commands before and around a search: ``search``, ``plan``, ``init``, and ``data check``.

``_main.py`` registers them. The options of a search come from the table of ``core``; a command
adds how its result is printed. A search without a limit at a place where nobody may be waiting
gets one (:data:`EFFORT`).
"""

import os
import shlex
import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from advisor.cli._groups import Commands
from advisor.cli._options import (
    AsJson,
    Brief,
    Filter,
    LogTo,
    Sort,
    annotations_of,
    argument,
    declare_options,
    of_output,
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
)
from advisor.cli._questions import at_terminal, with_readings
from advisor.core import (
    DEFAULT_TASK,
    EFFORTS,
    PLAN,
    SEARCH,
    TASKS,
    CheckDataKeywords,
    ExitCode,
    OptionGroup,
    UsageError,
    nearest,
    options_of,
    visible,
)

ENDS_WITHIN_S = 10.0
"""Seconds after which an interrupted search ends although a thread
of a dropped evaluation still works.
"""

LIMITING = ("budget", "time_limit", "effort", "max_trials", "stop_below", "request", "resume")
"""Options that say how far a search goes.
Where nobody may be waiting, a search without any of them has EFFORT.
"""

EFFORT = "standard"

FAULT_COLUMNS = ("found", "what", "images")
"""Columns of possible faults in a set of images, by which users sort and filter."""

DEMO_HELP = (
    "Search on drawn images of fruit: a whole answer in two minutes, without images of yours."
)
Demo = Annotated[bool, option("", DEMO_HELP, "--demo", rich_help_panel=OptionGroup.QUESTION)]


@declare_options(annotations_of(SEARCH))
def search(
    *,
    verbose: Annotated[
        bool, of_output("", "Show the output of the libraries.", "--verbose", "-v")
    ] = False,
    demo: Demo = False,
    brief: Brief = False,
    log_to: LogTo = None,
    sort: Sort = "",
    only: Filter = None,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Find the model to ship: evaluate candidates under a budget
    and recommend one with its reasons.

    With --data, each candidate is retrained on your images, and every file is scored on images
    that were held out. Without --data, published accuracies are quoted. Latency, memory and size
    are measured on this machine.

    Without images of your own: advisor search --demo

    Example: advisor search --budget 50ms --data photos/
    """
    from advisor import api
    from advisor.reporting import continue_command, make_answer_rows

    # Before the search, which may take hours.
    check_place(log_to)
    if demo:
        with progress("drawing the images of the demonstration"):
            options |= api.demonstrate(options)
    else:
        options |= _complete_options(options)
    # A wrong column is an error now, and not after hours of work.
    rows = make_answer_rows().select(sort, only)
    run = with_readings(partial(api.search, verbose=verbose, quiet=QUIET.get()), options)
    # The answer comes first: a place of --log-to that fails must not hide it.
    show_answer(run.view, as_json, rows, brief)
    log_run_to(run.path, log_to)
    if run.interrupted:
        _end_interrupted(run.path)
    if run.stopped and as_json:
        note(f"{run.stopped}; continue with: {continue_command(run.path)}")
    elif run.stopped:
        # The answer in words has its next steps and its counts itself.
        note(run.stop_reason)
    if not run.decision.feasible:
        raise typer.Exit(ExitCode.UNSATISFIED)


def _end_interrupted(run: Path) -> NoReturn:
    """Say how to continue, and end the process soon."""
    typer.echo(
        f"interrupted; continue with: advisor search --resume {shlex.quote(str(run))}", err=True
    )
    # Python waits for its threads at the end, and native code in one cannot be interrupted.
    ending = threading.Timer(ENDS_WITHIN_S, os._exit, (ExitCode.INTERRUPTED,))
    ending.daemon = True
    ending.start()
    raise typer.Exit(ExitCode.INTERRUPTED)


def _complete_options(options: Mapping[str, object]) -> Mapping[str, str]:
    """Return what to ask for where nothing is given,
    and a limit where nobody may be waiting and there is none.
    """
    terminal = at_terminal()
    if not any(value is not None for value in options.values()):
        if terminal:
            return _ask_question()
        hint = (
            "give your images and a limit: --data photos --budget 50ms; --demo shows an answer on"
            " drawn images"
        )
        raise UsageError("nothing says what to search for", hint)
    # A person at a terminal can end the search;
    # a scheduled job without a limit would run for hours.
    if terminal or any(options[name] is not None for name in LIMITING):
        return {}
    note(
        f"neither --budget nor --time-limit is given: --effort {EFFORT} applies"
        f" ({EFFORTS[EFFORT]})"
    )
    return {"effort": EFFORT}


def _ask_question() -> dict[str, str]:
    """Ask for what matters most, and show the command that asks for the same."""

    def ask(question: str, default: str = "") -> str:
        return str(
            typer.prompt(question, default=default, show_default=bool(default), err=True)
        ).strip()

    def require_task(task: str) -> str:
        if task.strip() not in TASKS:
            raise typer.BadParameter(f"unknown task '{task}'{nearest(task, TASKS)}")
        return task.strip()

    answers = {
        "task": typer.prompt(
            f"Task: {', '.join(TASKS)}", DEFAULT_TASK, value_proc=require_task, err=True
        ),
        "data": ask(
            "Folder of labelled images, with one sub-folder for each class (empty: published"
            " accuracies)"
        ),
        "budget": ask("Latency limit (empty: none)", "50ms"),
        "device": ask("Device to ship on, as advisor devices list names it (empty: this machine)"),
    }
    options = {name: value for name, value in answers.items() if value}
    if options.get("task") == DEFAULT_TASK:
        del options["task"]
    command = "advisor search"
    for name, value in options.items():
        command += f" --{name} {shlex.quote(value)}"
    typer.echo(f"The same without questions: {command}", err=True)
    return options


@declare_options(annotations_of({name: option for name, option in PLAN.items() if option.kept}))
def init(
    file: Annotated[str, argument("FILE", "The file to write.")] = "advisor.yaml",
    *,
    force: Annotated[
        bool,
        option(
            "", "Replace the file if it exists.", "--force", rich_help_panel=OptionGroup.OUTPUT
        ),
    ] = False,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Write a request file with a comment for every option.
    The options that you give are set in it.

    Example: advisor init --budget 50ms --data photos/
    """
    from advisor import api

    path = api.write_request(file, options, force=force)
    if as_json:
        print_document(path=str(path))
        return
    shown = visible(str(path))
    typer.echo(f"wrote {shown}; next: advisor search --request {shown}")


@declare_options(annotations_of(PLAN))
def plan(
    *,
    every: Annotated[
        bool,
        option(
            "", "Show each form of each candidate.", "--all", rich_help_panel=OptionGroup.OUTPUT
        ),
    ] = False,
    sort: Sort = "",
    only: Filter = None,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Show what a search with the same options would do, and its price.
    Nothing is spent, no connection is opened.

    The table has a row for each candidate with its fastest form: its estimated latency, the
    probability that it meets the budget, its size, published accuracy and price in seconds. It
    also says which candidates are filtered and why, and which weights are on this machine.

    Example: advisor plan --budget 50ms --data photos/ --time-limit 10min
    """
    from advisor import api
    from advisor.reporting import PLAN as ROWS, print_plan

    rows = ROWS.select(sort, only)

    def plan_with(**chosen: Any) -> Any:
        with progress("planning"):
            return api.plan(**chosen)

    view = with_readings(plan_with, options)
    shown = rows.of(view.forecasts)
    if as_json:
        print_json({**view.to_json(), "candidates": [forecast.to_json() for forecast in shown]})
    else:
        print_plan(view, shown=shown if sort or only else None, every=every)


data_app = Commands.group(
    "data",
    "Find faults in your own images, and write a manifest without them.",
    "Find faults in your own images.",
)


@data_app.callback()
def _only_group() -> None:
    """Keep ``check`` a sub-command; Typer merges a single one into its group."""


@data_app.command("check", short_help="Find faults and write a manifest without them.")
@declare_options(annotations_of(options_of(CheckDataKeywords)))
def check(
    data: Annotated[
        str,
        argument(
            "DATA", "Folder of images, a manifest, a zip, tar or table of images, or a COCO file."
        ),
    ],
    *,
    html: Annotated[
        str, option("FILE", "File for the contact sheet of the suspects.")
    ] = "data-check.html",
    sort: Sort = "",
    only: Filter = None,
    as_json: AsJson = False,
    **shared: Any,
) -> None:
    """Find faults in images and boxes: unreadable, repeated, wrong labels, unlike a phone's.
    No image is changed.

    Prints a table and writes a contact sheet of the suspects. Exit code 2: no image can be read.

    Example: advisor data check photos/ --fix cleaned.csv
    """
    with progress("starting"):  # These imports take a second
        from advisor import api
        from advisor.reporting import Rows, print_data_check, render

    rows = Rows(FAULT_COLUMNS, make_fault_row).select(sort, only)
    sheet = Path(html)
    # Before minutes of reading images; a file can still become unwritable until its end.
    if sheet.is_dir() or not sheet.absolute().parent.is_dir():
        why = "it is a folder" if sheet.is_dir() else f"there is no folder '{sheet.parent}'"
        raise _refuse_sheet(sheet, why)

    def check_with(**chosen: Any) -> Any:
        with progress("reading the images") as tell:
            checked = api.check_data(tell=tell, **chosen)
            try:
                sheet.write_text(render(checked), encoding="utf-8")
            except OSError as error:
                raise _refuse_sheet(sheet, str(error.strerror)) from None
        return checked

    checked = with_readings(check_with, {"data": data, **shared})
    shown = rows.of(checked.findings)
    if as_json:
        print_json(replace(checked, findings=shown).to_json())
    else:
        fixed = Path(shared["fix"]) if shared["fix"] else None
        print_data_check(checked, sheet, fixed, shown=shown)
    if not checked.survey.dataset.images:
        raise typer.Exit(ExitCode.USAGE)


def make_fault_row(finding: Any) -> Mapping[str, object]:
    """Return the values of a possible fault by column."""
    return {
        "found": finding.kind.value,
        "what": finding.message,
        "images": len(finding.images),
    }


def _refuse_sheet(sheet: Path, why: str) -> UsageError:
    return UsageError(
        f"--html: '{sheet}' cannot be written: {why}", "name another file with --html"
    )
