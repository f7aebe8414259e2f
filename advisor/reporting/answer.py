"""The answer: the short table, its sentences and the pick with its figures, for every form of a report."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from advisor.core.units import plural
from advisor.reporting import blocks, text
from advisor.reporting import console as terminal
from advisor.reporting.device_results import (
    device_decisions,
    device_results,
    runtimes_sentence,
    sentence,
)
from advisor.reporting.explanation import TITLE, explanation, incumbent_sentences
from advisor.reporting.figures import certainty, expectations
from advisor.reporting.frames import AnswerRows, chosen
from advisor.reporting.front import fitted_table, written_table
from advisor.reporting.phrases import counts, limits, shortlist
from advisor.reporting.risks import Risk, risks, warnings
from advisor.reporting.view import RunView

MAX_FLIPS = 3


def print_answer(view: RunView, console: Console | None = None, rows: AnswerRows | None = None) -> None:
    """Write the answer to ``console``, or to standard output (plain if NO_COLOR is set or it is not a terminal).

    Args:
        view: the run.
        console: where to.
        rows: which rows of the table, and their order.
    """
    console = console or terminal.default_console()
    if view.unfinished:
        terminal.show([blocks.Paragraph(view.unfinished_sentence, "warn")], console)
        terminal.write([Text()], console)
    if view.decision.pick:
        shown = chosen(view, shortlist(view), rows)
        nothing = Text("No row passes the filter.", style="yellow")
        terminal.write([fitted_table(view, console, shown) if shown else nothing, Text()], console)
    terminal.show(_sentences(view), console)


def _sentences(view: RunView) -> Iterator[blocks.Block]:
    """Return what the terminal says below the table."""
    decision, dataset = view.decision, view.dataset
    pick = "Pick for all devices" if view.by_device else "Pick"
    label, look = (pick, "good") if decision.feasible else ("Nothing meets the budget", "warn")
    yield blocks.Labelled(label, decision.reason.removeprefix(f"{label}; "), look)
    if decision.pick is not None:
        yield from (blocks.Labelled(name, figure) for name, figure in expectations(decision.pick, view.other_metric))
    if sure := certainty(view):
        yield blocks.Labelled("How sure", sure)
    if decision.why_not_faster:
        yield blocks.Labelled("Why not the faster tie", decision.why_not_faster)
    yield from warned(view)
    yield from alternatives(view, MAX_FLIPS)
    if not decision.feasible and not decision.relaxations and decision.pick is not None:
        yield blocks.Labelled("To meet the budget", "no change of the limits admits a candidate")
    if view.tuning is not None:
        yield blocks.Paragraph(view.tuning_sentence)
    yield blocks.Paragraph(counts(view), "dim")
    if dataset and dataset.rejected:
        yield blocks.Paragraph(f"{plural(len(dataset.rejected), 'image')} could not be used: see the report.", "dim")
    yield from (blocks.Paragraph(note, "dim") for note in (dataset.notes if dataset else ()))
    if dataset and dataset.leaking:
        yield blocks.Paragraph(dataset.leaking, "warn")
    if view.next_command:
        yield blocks.Labelled("Next", blocks.Span(view.next_command, "command"))


def warned(view: RunView) -> list[blocks.Labelled]:
    """Return the high risks of the pick, which every form of an answer shows."""
    found = warnings(risks(view, view.decision.pick)) if view.decision.pick else ()
    return [blocks.Labelled(f"Warning, {risk.name.lower()}", risk.text, "warning") for risk in found]


def other_risks(view: RunView) -> list[Risk]:
    """Return the risks of the pick that are no warnings."""
    found = risks(view, view.decision.pick) if view.decision.pick else ()
    return [risk for risk in found if risk not in warnings(found)]


def alternatives(view: RunView, flips: int | None = None) -> Iterator[blocks.Labelled]:
    """Return the answer on other devices and in other runtimes, the runner-up, and what would change the pick."""
    decision = view.decision
    results = device_results(view, decision.pick) if decision.pick else ()
    yield from (blocks.Labelled("On each device", sentence(result)) for result in results)
    if compared := runtimes_sentence(view):
        yield blocks.Labelled("Runtimes", compared)
    for own in device_decisions(view):
        yield blocks.Labelled(f"On {own.device}", "the same pick" if own.same else own.decision.reason)
    yield from (blocks.Labelled(TITLE, each) for each in incumbent_sentences(view))
    if decision.runner_up is not None:
        yield blocks.Labelled("Runner-up", decision.runner_up_reason or text.name(decision.runner_up))
    yield from (blocks.Labelled("The pick changes if", flip.text, colon=False) for flip in decision.flips[:flips])
    yield from (blocks.Labelled("A looser limit", loosening.text) for loosening in decision.loosenings)
    yield from (blocks.Labelled("To meet the budget", relaxation.text) for relaxation in decision.relaxations)


def headline(view: RunView) -> Iterator[blocks.Block]:
    """Return the beginning of a document: the pick, why, its warnings and the question."""
    decision = view.decision
    nothing = "no result yet" if view.unfinished and decision.pick is None else "nothing meets the budget"
    title = text.name(decision.pick) if decision.pick and decision.feasible else nothing
    yield blocks.Heading(f"advisor: {title}", "answer")
    if view.unfinished:
        yield blocks.Paragraph(blocks.Span(view.unfinished_sentence, "strong"), "unfinished")
    if short := explanation(view):
        yield blocks.Labelled("In short", short, "lead")
    yield blocks.Paragraph(" ".join(filter(None, (decision.reason, decision.why_not_faster))))
    if decision.rule:
        yield blocks.Paragraph(decision.rule)
    yield from warned(view)
    question = [f"{label} {limit}" for label, limit in limits(view)]
    yield blocks.Paragraph(f"Asked: {', '.join([view.request.question.task, *question])}. {counts(view)}")


def summary(view: RunView) -> Iterator[blocks.Block]:
    """Return what a notebook shows."""
    decision = view.decision
    if view.unfinished:
        yield blocks.Paragraph(view.unfinished_sentence)
    yield blocks.Paragraph(blocks.Span(decision.reason, "strong"))
    yield from warned(view)
    if decision.runner_up is not None:
        yield blocks.Labelled("Runner-up", decision.runner_up_reason)
    yield from (blocks.Paragraph(relaxation.text) for relaxation in decision.relaxations)
    if decision.pick is not None:
        yield from written_table(view)
    yield blocks.Paragraph((f"{counts(view)} Report: ", blocks.Span(f"{view.folder}/report.html", "code")))
