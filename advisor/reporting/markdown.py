"""The answer as Markdown, short enough for a pull request."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Sequence

from advisor.core.evaluation import Evaluation, Status
from advisor.core.quantity import Quantity
from advisor.reporting import text
from advisor.reporting.device_results import device_decisions, device_results, sentence
from advisor.reporting.escape import markdown as escaped
from advisor.reporting.figures import foundations, key_figures
from advisor.reporting.funnel import funnel
from advisor.reporting.method import command_line, shown
from advisor.reporting.phrases import counts, limits, parts, verdict
from advisor.reporting.ranking import shortlist
from advisor.reporting.risks import risks
from advisor.reporting.view import RunView

_log = logging.getLogger(__name__)

FAILURES_SHOWN = 20

JUDGED = (
    "Candidates are ranked by their accuracy on validation. Expect the accuracy on the hold-out, which is measured "
    "once, for finalists. Robust: the hold-out under capture conditions."
)


def render_markdown(view: RunView) -> str:
    """Return the report. A part that fails becomes an error line; the other parts are not affected."""
    parts: tuple[Callable[[RunView], Iterable[str]], ...] = (
        _headline,
        _figures,
        _alternatives,
        _table,
        _losses,
        _funnel,
        _failures,
        _data,
        _method,
    )
    blocks = [block for part in parts if (block := _block(part, view))]
    return "\n\n".join(blocks) + "\n"


def _block(part: Callable[[RunView], Iterable[str]], view: RunView) -> str:
    try:
        return "\n".join(part(view))
    except Exception as error:
        _log.exception("report.md: the part '%s' could not be made", part.__name__)
        return f"> This part could not be made: {escaped(f'{type(error).__name__}: {error}')}"


def _headline(view: RunView) -> Iterable[str]:
    decision = view.decision
    title = text.name(decision.pick) if decision.pick and decision.feasible else "nothing meets the budget"
    yield f"## advisor: {escaped(title)}"
    yield ""
    yield escaped(decision.reason)
    yield ""
    asked = [f"{label} {limit}" for label, limit in limits(view)]
    yield f"Asked: {escaped(', '.join([str(view.request.get('task', 'a model')), *asked]))}. {escaped(counts(view))}"


def _figures(view: RunView) -> Iterable[str]:
    pick = view.decision.pick
    if pick is None:
        return
    yield from _rows(("figure", "value", "remark"), "lrl")
    for figure in key_figures(view, pick):
        yield _row((figure.label, figure.value, figure.remark))
    yield ""
    yield from (f"- {escaped(sentence)}" for sentence in foundations(view, pick))


def _alternatives(view: RunView) -> Iterable[str]:
    decision = view.decision
    if decision.pick is not None:
        yield from (
            f"- **On each device**: {escaped(sentence(result))}" for result in device_results(view, decision.pick)
        )
    yield from (f"- **{escaped(own.device)}**: {escaped(own.decision.reason)}" for own in device_decisions(view))
    if decision.runner_up is not None:
        yield f"- **Runner-up**: {escaped(decision.runner_up_reason or text.name(decision.runner_up))}"
    yield from (f"- **The pick changes if** {escaped(flip.text)}" for flip in decision.flips)
    yield from (f"- **To meet the budget**: {escaped(relaxation.text)}" for relaxation in decision.relaxations)
    if decision.pick is not None:
        for risk in risks(view, decision.pick):
            yield f"- **Risk, {risk.level}**: {escaped(risk.name)}: {escaped(risk.text)}"


def _table(view: RunView) -> Iterable[str]:
    rows = shortlist(view)
    if not rows:
        return
    judged = any(row.holdout_accuracy for row in rows)
    top1 = ("validation % (95 %)", "hold-out % (95 %)", "robust %") if judged else ("top-1 % (95 %)",)
    headers = ("", "model", "compression", "device", "threads", *top1, "median ms", "p90 ms", "size MB", "memory MB")
    alignment = f"llll{'r' * (len(headers) - 2)}l"
    yield from _rows((*headers, "deflated MB", "zstd MB", "from (top-1, latency)"), alignment)
    for row in rows:
        yield _row(_cells(view, row, judged))
    if judged:
        yield ""
        yield JUDGED


def _cells(view: RunView, row: Evaluation, judged: bool) -> Sequence[str]:
    return (
        verdict(view, row),
        row.configuration.card,
        row.configuration.variant_name,
        row.configuration.target.device,
        str(row.configuration.target.threads),
        _share(row.accuracy),
        *([_share(row.holdout_accuracy), text.percent(row.capture.holdout)] if judged else []),
        text.milliseconds(row.latency),
        text.milliseconds(row.latency_p90),
        text.megabytes(row.size),
        text.megabytes(row.memory),
        _download(row.file_facts.download_bytes),
        _download(row.file_facts.download_zstd_bytes),
        text.provenance_note(row),
    )


def _download(size: float | None) -> str:
    return text.MISSING if size is None else f"{size / 1e6:.2f}"


def _share(quantity: Quantity | None) -> str:
    ends = text.interval(quantity)
    return text.percent(quantity) + (f" ({ends})" if ends else "")


def _losses(view: RunView) -> Iterable[str]:
    rows = [(row, view.diagnoses[row.configuration.key]) for row in view.ok if row.configuration.key in view.diagnoses]
    for row, found in rows:
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
    yield from _rows(("configuration", "status", "stage", "reason"), "llll")
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
        f"Images: {dataset.images} in {len(dataset.classes)} classes "
        f"({escaped(', '.join(dataset.classes[:20]))}{', ...' if len(dataset.classes) > 20 else ''}), "
        f"{parts(dataset)}{rejected}."
    )
    if dataset.leaking:
        yield dataset.leaking


def _method(view: RunView) -> Iterable[str]:
    command = text.plain(command_line(view))
    if command:
        fence = "`" * (1 + max([2, *map(len, re.findall("`+", command))]))
        yield from (fence, command, fence, "")
    versions = view.manifest.get("versions") or {}
    yield f"Run {escaped(view.name)}. {escaped(shown(versions))}".rstrip()


def _rows(headers: Sequence[str], alignment: str) -> Iterable[str]:
    yield _row(headers)
    yield "| " + " | ".join("---:" if side == "r" else "---" for side in alignment) + " |"


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(escaped(cell) for cell in cells) + " |"
