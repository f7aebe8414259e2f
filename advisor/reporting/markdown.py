"""The answer as Markdown, short enough for a pull request."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterable

from advisor.core.escape import markdown as escaped
from advisor.core.evaluation import Evaluation, Status
from advisor.reporting import text
from advisor.reporting.classes import ClassRecall, recalls
from advisor.reporting.confusion import confusions
from advisor.reporting.device_results import device_decisions, device_results, runtimes_sentence, sentence
from advisor.reporting.explanation import explanation
from advisor.reporting.figures import foundations, key_figures
from advisor.reporting.funnel import funnel
from advisor.reporting.incumbents import TITLE, sentences
from advisor.reporting.metrics import cells, metric_table
from advisor.reporting.phrases import command_line, counts, limits, parts, shown, verdict
from advisor.reporting.ranking import shortlist
from advisor.reporting.risks import risks, warnings
from advisor.reporting.unknown import SAMPLE, command, cost, left_out, other_things
from advisor.reporting.view import RunView

_log = logging.getLogger(__name__)

FAILURES_SHOWN = 20

CLASSES_SHOWN = 20
"""Classes of the pick, those with the lowest figure, so that the report stays short."""

JUDGED = (
    "Candidates are ranked by their accuracy on validation. Expect the accuracy on the hold-out, which is measured "
    "once, for finalists. Robust: the hold-out under capture conditions."
)


def render_markdown(view: RunView) -> str:
    """Return the report. A part that fails becomes an error line; the other parts are not affected."""
    parts = (
        _headline,
        _figures,
        _alternatives,
        _table,
        _classes,
        _metrics,
        _unknown,
        _losses,
        _funnel,
        _failures,
        _data,
        _method,
    )
    blocks = [_block(part, view) for part in parts]
    return "\n\n".join(filter(None, blocks)) + "\n"


def _block(part: Callable[[RunView], Iterable[str]], view: RunView) -> str:
    try:
        return "\n".join(part(view))
    except Exception as error:
        _log.exception("report.md: the part '%s' could not be made", part.__name__)
        return f"> This part could not be made: {escaped(f'{type(error).__name__}: {error}')}"


def _headline(view: RunView) -> Iterable[str]:
    decision = view.decision
    nothing = "no result yet" if view.unfinished and decision.pick is None else "nothing meets the budget"
    title = text.name(decision.pick) if decision.pick and decision.feasible else nothing
    yield f"## advisor: {escaped(title)}"
    yield ""
    if view.unfinished:
        yield f"> **{escaped(view.unfinished_sentence)}**"
        yield ""
    short = explanation(view)
    if short:
        yield f"**In short**: {escaped(short)}"
        yield ""
    yield escaped(" ".join(filter(None, (decision.reason, decision.why_not_faster))))
    yield ""
    if decision.rule:
        yield escaped(decision.rule)
        yield ""
    found = warnings(risks(view, decision.pick)) if decision.pick else ()
    for risk in found:
        yield f"> **Warning, {escaped(risk.name.lower())}**: {escaped(risk.text)}"
        yield ""
    question = [f"{label} {limit}" for label, limit in limits(view)]
    yield f"Asked: {escaped(', '.join([view.request.question.task, *question]))}. {escaped(counts(view))}"


def _figures(view: RunView) -> Iterable[str]:
    pick = view.decision.pick
    if pick is None:
        return
    yield from _heading(("figure", "value", "remark"), "lrl")
    for figure in key_figures(view, pick):
        yield _row((figure.label, figure.value, figure.remark))
    yield ""
    yield from (f"- {escaped(sentence)}" for sentence in foundations(view, pick))


def _alternatives(view: RunView) -> Iterable[str]:
    decision = view.decision
    results = device_results(view, decision.pick) if decision.pick else ()
    yield from (f"- **On each device**: {escaped(sentence(result))}" for result in results)
    if compared := runtimes_sentence(view):
        yield f"- **Runtimes**: {escaped(compared)}"
    yield from (f"- **{escaped(own.device)}**: {escaped(own.decision.reason)}" for own in device_decisions(view))
    yield from (f"- **{TITLE}**: {escaped(each)}" for each in sentences(view))
    if decision.runner_up is not None:
        yield f"- **Runner-up**: {escaped(decision.runner_up_reason or text.name(decision.runner_up))}"
    yield from (f"- **The pick changes if** {escaped(flip.text)}" for flip in decision.flips)
    yield from (f"- **A looser limit**: {escaped(loosening.text)}" for loosening in decision.loosenings)
    yield from (f"- **To meet the budget**: {escaped(relaxation.text)}" for relaxation in decision.relaxations)
    if view.tuning is not None:
        yield f"- **Fine-tuning**: {escaped(view.tuning_sentence)}"
    found = risks(view, decision.pick) if decision.pick else ()
    others = [risk for risk in found if risk not in warnings(found)]
    yield from (f"- **Risk, {risk.level}**: {escaped(risk.name)}: {escaped(risk.text)}" for risk in others)


def _table(view: RunView) -> Iterable[str]:
    rows = shortlist(view)
    judged = any(row.holdout_accuracy for row in rows)
    cells = [_cells(view, row, judged) for row in rows]
    if not cells:
        return
    yield from _heading(cells[0], f"llll{'r' * (len(cells[0]) - 5)}l")
    for by_title in cells:
        yield _row(by_title.values())
    if judged:
        yield ""
        yield JUDGED


def _cells(view: RunView, row: Evaluation, judged: bool) -> dict[str, str]:
    """Return the cells of a row by the titles of their columns."""
    cells = {
        "": verdict(view, row),
        "model": row.configuration.card,
        "compression": row.configuration.variant_name,
        "device": row.configuration.target.device,
        "threads": str(row.configuration.target.threads),
        "validation % (95 %)" if judged else f"{view.metric} % (95 %)": text.with_interval(row.accuracy),
    }
    if judged:
        cells["hold-out % (95 %)"] = text.with_interval(row.holdout_accuracy)
        cells["robust %"] = text.percent(row.capture.holdout)
    return {
        **cells,
        "median ms": text.milliseconds(row.latency),
        "p90 ms": text.milliseconds(row.latency_p90),
        "size MB": text.megabytes(row.size),
        "memory MB": text.megabytes(row.memory),
        "deflated MB": _download(row.file_facts.download_bytes),
        "zstd MB": _download(row.file_facts.download_zstd_bytes),
        f"from ({view.metric}, latency)": text.provenance_note(row),
    }


def _download(size: float | None) -> str:
    return text.MISSING if size is None else f"{size / 1e6:.2f}"


def _classes(view: RunView) -> Iterable[str]:
    pick = view.decision.pick
    if pick is None or not pick.answers.has_classes:
        return
    answers, task = pick.holdout_answers or pick.answers, view.task
    found = recalls(answers, view.classes)
    if not found:
        return
    weak = sorted(found, key=lambda each: math.inf if each.recall is None else each.recall)[:CLASSES_SHOWN]
    cells = [_class_cells(task.by_class, each, answers.boxes is not None) for each in weak]
    yield from _heading(cells[0], "l" + "r" * (len(cells[0]) - 1))
    for by_title in cells:
        yield _row(by_title.values())
    yield ""
    on = "hold-out" if pick.holdout_answers else "validation"
    others = f"; {len(found) - len(weak)} more are in report.html" if len(found) > len(weak) else ""
    counted = f", and counts from a score of {answers.boxes.threshold:.2f} on" if answers.boxes else ""
    yield f"{escaped(task.by_class)} on {on}: {task.by_class_is}{counted}{others}."
    compared = confusions(pick, view.decision.runner_up, view.classes)
    if compared and compared.sentence:
        pairs = (f"{pair.true} taken for {pair.answer} ({pair.pick} and {pair.runner_up})" for pair in compared.pairs)
        most = f" They differ most in {', '.join(pairs)}." if compared.pairs else ""
        yield ""
        yield f"- **Pick and runner-up**: {escaped(compared.sentence + most)}"


def _metrics(view: RunView) -> Iterable[str]:
    table = metric_table(view)
    if table is None:
        return
    yield from _heading(("metric", "pick % (95 %)", "runner-up % (95 %)", "what it is"), "lrrl")
    for row in table.rows:
        yield _row(cells(row))
    yield ""
    yield f"Metrics on {table.part}; higher is better. Candidates are compared by {escaped(view.metric)}."


def _unknown(view: RunView) -> Iterable[str]:
    pick = view.decision.pick
    if pick is None or pick.unknown is None:
        return
    facts = pick.unknown
    yield f"- **Unknown images**: {escaped(left_out(pick, facts))}"
    yield f"- **Your images of other things**: {escaped(other_things(facts)) or f'`{SAMPLE}` judges them.'}"
    ships = command(view, facts)
    said = " ".join(filter(None, (escaped(cost(pick, facts)), f"To ship it: {escaped(ships)}" if ships else "")))
    if said:
        yield f"- **With one more class**: {said}"


def _class_cells(metric: str, own: ClassRecall, boxes: bool) -> dict[str, str]:
    """Return the cells of a class by the titles of their columns."""

    def share(value: float | None) -> str:
        return text.MISSING if value is None else f"{100 * value:.1f}"

    figure = text.MISSING if own.recall is None else f"{own.recall:.1f}"
    if boxes:
        counted = (str(own.boxes.true), str(own.boxes.found)) if own.boxes else (text.MISSING, text.MISSING)
        precision, recall, error = map(share, own.shares)
        return {
            "class": own.label, "true": counted[0], "found": counted[1], f"{metric} %": figure,
            "precision %": precision, "recall %": recall, "count error %": error,
        }  # fmt: skip
    interval = "" if own.low is None or own.high is None else f" ({own.low:.0f}{text.DASH}{own.high:.0f})"
    images = text.MISSING if own.n is None else str(own.n)
    precision = text.MISSING if own.precision is None else f"{own.precision:.1f}"
    return {
        "class": own.label, "images": images, f"{metric.lower()} % (95 %)": f"{figure}{interval}",
        "precision %": precision,
    }  # fmt: skip


def _losses(view: RunView) -> Iterable[str]:
    if view.disagreements is not None:
        yield f"- **What compression changes**: {escaped(view.disagreements.sentence)}"
    for row, found in view.diagnosed:
        why = found.verdict[1] if len(found.verdict) > 1 else found.verdict[0]
        yield f"- **Why {escaped(text.name(row))} loses {text.points(row.drop)} points**: {escaped(why)}"


def _funnel(view: RunView) -> Iterable[str]:
    if view.evaluations:
        yield "Left: " + " → ".join(f"{step.left} {escaped(step.name)}" for step in funnel(view)) + "."


def _failures(view: RunView) -> Iterable[str]:
    rows = (*view.with_status(Status.FAILED), *view.with_status(Status.SKIPPED))
    if not rows:
        return
    yield f"<details><summary>{len(rows)} failed or skipped</summary>"
    yield ""
    yield from _heading(("configuration", "status", "stage", "reason"), "llll")
    for row in rows[:FAILURES_SHOWN]:
        yield _row((text.name(row), row.status.value, row.stage, row.reason))
    if len(rows) > FAILURES_SHOWN:
        yield ""
        yield f"{len(rows) - FAILURES_SHOWN} more are in report.html."
    yield ""
    yield "</details>"


def _data(view: RunView) -> Iterable[str]:
    dataset = view.dataset
    if dataset is None:
        return
    rejected = f", {len(dataset.rejected)} files not used" if dataset.rejected else ""
    yield (
        f"Images: {dataset.counted} in {len(dataset.classes)} classes "
        f"({escaped(', '.join(dataset.classes[:20]))}{', ...' if len(dataset.classes) > 20 else ''}), "
        f"{parts(dataset)}{rejected}."
    )
    yield from map(escaped, dataset.notes)
    if dataset.leaking:
        yield dataset.leaking


def _method(view: RunView) -> Iterable[str]:
    command = text.plain(command_line(view))
    if command:
        fence = "`" * (1 + max([2, *map(len, re.findall("`+", command))]))
        yield from (fence, command, fence, "")
    versions = view.manifest.get("versions") or {}
    yield f"Run {escaped(view.name)}. {escaped(shown(versions))}".rstrip()


def _heading(titles: Iterable[str], alignment: str) -> Iterable[str]:
    yield _row(titles)
    yield "| " + " | ".join("---:" if side == "r" else "---" for side in alignment) + " |"


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(escaped(cell) for cell in cells) + " |"
