"""A run in a notebook: the answer, the short table, and the path of the report."""

from __future__ import annotations

from markupsafe import Markup

from advisor.core.evaluation import Evaluation
from advisor.reporting import text
from advisor.reporting.phrases import counts, verdict
from advisor.reporting.ranking import shortlist
from advisor.reporting.risks import risks, warnings
from advisor.reporting.view import RunView


def summary_html(view: RunView) -> str:
    """Return a fragment of HTML without scripts; names are escaped."""
    decision = view.decision
    parts = [Markup("<div><p>{}</p><p><b>{}</b></p>").format(view.unfinished_sentence, decision.reason)]
    if decision.pick is not None:
        found = warnings(risks(view, decision.pick))
        parts += [Markup("<p><b>Warning, {}:</b> {}</p>").format(risk.name.lower(), risk.text) for risk in found]
    if decision.runner_up is not None:
        parts.append(Markup("<p>Runner-up: {}</p>").format(decision.runner_up_reason))
    parts += [Markup("<p>{}</p>").format(relaxation.text) for relaxation in decision.relaxations]
    if decision.pick is not None:
        parts.append(_table(view))
    parts.append(Markup("<p>{} Report: <code>{}/report.html</code></p></div>").format(counts(view), view.folder))
    return str(Markup("").join(parts))


def _table(view: RunView) -> Markup:
    rows = shortlist(view)
    head = Markup("").join(Markup("<th>{}</th>").format(title) for title in _cells(view, rows[0]))
    body = Markup("").join(_row(view, row) for row in rows)
    return Markup("<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>").format(head, body)


def _row(view: RunView, row: Evaluation) -> Markup:
    style = "font-weight:bold" if row.configuration.key == view.pick_key else ""
    cells = Markup("").join(Markup("<td>{}</td>").format(cell) for cell in _cells(view, row).values())
    return Markup('<tr style="{}">{}</tr>').format(style, cells)


def _cells(view: RunView, row: Evaluation) -> dict[str, str]:
    """Return the cells of a row by the titles of their columns."""
    return {
        "": verdict(view, row),
        "model": row.configuration.card,
        "compression": row.configuration.variant_name,
        "threads": str(row.configuration.target.threads),
        f"{view.metric} %": text.percent(row.accuracy),
        "95 %": text.interval(row.accuracy),
        "hold-out %": text.percent(row.holdout_accuracy),
        "p90 ms": text.milliseconds(row.latency_p90 or row.latency),
        "size MB": text.megabytes(row.size),
        f"from ({view.metric}, latency)": text.provenance_note(row),
    }
