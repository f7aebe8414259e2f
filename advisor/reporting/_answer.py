"""The answer in sentences, above and below its table, for every form of a report.

:func:`print_answer` writes it to the terminal; :func:`make_headline` begins ``report.md``, and
:func:`make_summary` is what a notebook shows. The figures in the sentences come from
``_foundations.py``, ``_device_results.py`` and ``_risks.py``, so that all forms say the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from rich.console import Console
from rich.text import Text

from advisor.reporting import _blocks as blocks, _text as text
from advisor.reporting._answer_table import fit_table, make_written_table
from advisor.reporting._blocks import Block, Labelled, Paragraph, Span
from advisor.reporting._confidence import threshold_blocks
from advisor.reporting._device_results import device_decisions, device_results, runtimes_sentence
from advisor.reporting._explanation import explain_pick, opening_lines
from advisor.reporting._first_lines import FirstLines, fit_first_lines
from advisor.reporting._foundations import (
    compare_on_holdout,
    describe_certainty,
    find_holdout_rival,
    list_expectations,
    on_all_images,
)
from advisor.reporting._frames import AnswerRows, choose_rows
from advisor.reporting._incumbents import TITLE, incumbent_sentences
from advisor.reporting._phrases import (
    counts,
    describe_limits,
    leave_out_sentence,
    shortlist,
    wrong_labels,
)
from advisor.reporting._risk import Risk
from advisor.reporting._risks import is_worthless, list_risks, list_warnings
from advisor.reporting._steps import (
    ALSO,
    command_words,
    find_next_command,
    list_rest,
    next_steps,
    step_blocks,
)
from advisor.reporting._view import RunView, report_parts

MAX_FLIPS = 3

REPORT = "report.html"


def print_answer(
    view: RunView,
    console: Console | None = None,
    rows: AnswerRows | None = None,
    brief: bool = False,
) -> None:
    """Write the answer to ``console``, or to standard output.

    ``rows`` says which rows, and their order. Only the first lines are written if ``brief``.
    """
    console = console or blocks.default_console()
    for remark in filter(None, (view.demonstration, view.unfinished_sentence)):
        blocks.show([Paragraph(remark, "warn"), Paragraph("")], console)
    first = fit_first_lines(view, console)
    # Without a figure there are no first lines: then the verdict stands for them.
    lines = (
        first.list_blocks()
        if first.opening or not brief
        else islice(_list_sentences(view, first), 1)
    )
    blocks.show(lines, console)
    if brief:
        return
    if view.decision.pick:
        shown = choose_rows(view, shortlist(view, find_holdout_rival(view)), rows)
        nothing = Text("No row passes the filter.", style="yellow")
        blocks.write(
            [Text(), fit_table(view, console, shown) if shown else nothing, Text()], console
        )
    blocks.show(_list_sentences(view, first), console)


def _list_sentences(view: RunView, first: FirstLines) -> Iterator[Block]:
    """Yield what the terminal says below the table, which has the lines ``first`` above it."""
    decision = view.decision
    dataset = view.dataset
    if decision.feasible:
        label = "Pick for all devices" if view.by_device else "Pick"
    else:
        label = "Nothing meets the budget" if decision.pick else "No result"
    # A reason begins with its verdict where it stands alone.
    reason = decision.reason.removeprefix(f"{label}; ")
    if decision.pick is None:
        reason = reason[:1].lower() + reason[1:]  # it goes on after "No result:"
    yield Labelled(label, reason, "good" if decision.feasible else "warn")
    if decision.pick is not None:
        for name, figure in list_expectations(view, decision.pick):
            yield Labelled(name, figure)
    sentences = {
        "How sure": describe_certainty(view),
        "Better on the hold-out": compare_on_holdout(view),
    }
    for label, sentence in sentences.items():
        if sentence:
            yield Labelled(label, sentence)
    if decision.why_not_faster:
        yield Labelled("Why not the faster tie", decision.why_not_faster)
    # The terminal has room for the first sentence of each part.
    for part in report_parts().values():
        yield from [block for block in part.blocks(view) if isinstance(block, Labelled)][:1]
    yield from threshold_blocks(view)
    for line in first.left_out:
        yield Paragraph(line)
    # What stands beside the accuracy above the table, such as copies in a split, is said once.
    opening = " ".join(first.opening)
    yield from filter(
        None,
        (leave_out_sentence(block, first.risk, opening) for block in list_warned_blocks(view)),
    )
    yield from list_alternatives(view, MAX_FLIPS)
    if not decision.feasible and not decision.relaxations and decision.pick is not None:
        yield Labelled("To meet the budget", "no change of the limits admits a candidate")
    yield from step_blocks(view)[1:]
    if decision.pick is not None and not decision.feasible:
        label = ALSO if view.next_command else "Next"
        for step in list_rest(view):
            yield Labelled(label, step.words)
    yield Paragraph(counts(view), "dim")
    for note in dataset.notes if dataset else ():
        is_said = note in opening or note == view.demonstration
        if not is_said:
            yield Paragraph(note, "dim")
    if is_shippable(view):
        yield Labelled(
            "To ship", Span(f"advisor export {view.typed_folder} --to bundle", "command")
        )
    label = _last_label(view)
    if find_next_command(view) and label:
        words = command_words(view) if label == "Next" else Span(view.next_command, "command")
        yield Labelled(label, words)


def is_shippable(view: RunView) -> bool:
    """Return whether the pick of a search that has ended has a file worth shipping,
    and no other line says how.
    """
    pick = view.decision.pick
    if pick is None or not pick.artefact or not view.decision.feasible or is_worthless(view):
        return False
    says_how = view.next_command.startswith("advisor export")
    return not view.insights.unfinished and not view.demonstration and not says_how


def _last_label(view: RunView) -> str:
    """Return the label of the last line;
    empty for no line, where the first lines have the next step.
    """
    if view.next_command.endswith(REPORT) and opening_lines(view):
        return "Report"
    if not next_steps(view):
        return "" if opening_lines(view) else "Next"
    return "To ship" if view.next_command.startswith("advisor export") else "Then"


def list_warned_blocks(view: RunView) -> list[Labelled]:
    """Return the warnings of every form of an answer:
    of the run, high risks, a second file that ships, labels.
    """
    warning_risks = (
        list_warnings(list_risks(view, view.decision.pick)) if view.decision.pick else ()
    )
    warnings = [
        Labelled(f"Warning, {risk.name.lower()}", risk.text, "warning") for risk in warning_risks
    ]
    more = {
        "File that ships": on_all_images(view.decision.pick) if view.decision.pick else "",
        "Labels": wrong_labels(view),
    }
    proof = [Labelled("Warning, run folder", problem, "warning") for problem in view.problems]
    proof += [Labelled("Warning, own file", remark, "warning") for remark in view.remarks]
    return [*proof, *warnings, *(Labelled(name, words) for name, words in more.items() if words)]


def other_risks(view: RunView) -> list[Risk]:
    """Return the risks of the pick that are no warnings."""
    pick_risks = list_risks(view, view.decision.pick) if view.decision.pick else ()
    return [risk for risk in pick_risks if risk not in list_warnings(pick_risks)]


def list_alternatives(view: RunView, flips: int | None = None) -> Iterator[Labelled]:
    """Yield the answer on other devices and in other runtimes, the runner-up,
    and what would change the pick.
    """
    decision = view.decision
    results = device_results(view, decision.pick) if decision.pick else ()
    for result in results:
        yield Labelled("On each device", result.sentence)
    compared = runtimes_sentence(view)
    if compared:
        yield Labelled("Runtimes", compared)
    for device_decision in device_decisions(view):
        yield Labelled(
            f"On {device_decision.device}",
            "the same pick" if device_decision.same else device_decision.decision.reason,
        )
    for sentence in incumbent_sentences(view):
        yield Labelled(TITLE, sentence)
    if decision.runner_up is not None:
        yield Labelled("Runner-up", decision.runner_up_reason or text.name(decision.runner_up))
    for flip in decision.flips[:flips]:
        yield Labelled("The pick changes if", flip.text, colon=False)
    for loosening in decision.loosenings:
        yield Labelled("A looser limit", loosening.text)
    for relaxation in decision.relaxations:
        yield Labelled("To meet the budget", relaxation.text)


def make_headline(view: RunView) -> Iterator[Block]:
    """Yield the beginning of a document: the pick, why, its warnings and the question."""
    decision = view.decision
    title = "no result yet" if view.insights.unfinished else "no result"
    if decision.pick:
        title = text.name(decision.pick) if decision.feasible else "nothing meets the budget"
    yield blocks.Heading(f"advisor: {title}", "answer")
    for remark in filter(None, (view.demonstration, view.unfinished_sentence)):
        yield Paragraph(Span(remark, "strong"), "unfinished")
    yield blocks.Items(opening_lines(view))
    short = explain_pick(view)
    if short:
        yield Labelled("In short", short, "lead")
    yield Paragraph(" ".join(filter(None, (decision.reason, decision.why_not_faster))))
    if decision.rule:
        yield Paragraph(decision.rule)
    yield from threshold_blocks(view)
    yield from list_warned_blocks(view)
    question = [f"{label} {limit}" for label, limit in describe_limits(view)]
    yield Paragraph(f"Asked: {', '.join([view.request.question.task, *question])}. {counts(view)}")


def make_summary(view: RunView) -> Iterator[Block]:
    """Yield what a notebook shows."""
    decision = view.decision
    for remark in filter(None, (view.demonstration, view.unfinished_sentence)):
        yield Paragraph(remark)
    for line in opening_lines(view):
        yield Paragraph(Span(line, "strong"))
    yield Paragraph(decision.reason)
    yield from list_warned_blocks(view)
    if decision.runner_up is not None:
        yield Labelled("Runner-up", decision.runner_up_reason)
    for relaxation in decision.relaxations:
        yield Paragraph(relaxation.text)
    if decision.pick is not None:
        yield from make_written_table(view)
    yield Paragraph((f"{counts(view)} Report: ", Span(f"{view.folder}/report.html", "code")))
