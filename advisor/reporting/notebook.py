"""A run in a notebook: the answer, the short table and a plot, all static."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup, escape

from advisor.core.evaluation import Evaluation
from advisor.reporting import text
from advisor.reporting.phrases import counts, verdict
from advisor.reporting.ranking import shortlist
from advisor.reporting.risks import risks, warnings
from advisor.reporting.view import RunView

WIDTH, HEIGHT, MARGIN = 560, 260, 44


def summary_html(view: RunView) -> str:
    """Return a fragment of HTML without scripts; names are escaped, colours follow the notebook."""
    decision = view.decision
    parts = [Markup("<div><p>{}</p><p><b>{}</b></p>").format(view.unfinished_sentence, decision.reason)]
    if decision.pick is not None:
        found = warnings(risks(view, decision.pick))
        parts += [Markup("<p><b>Warning, {}:</b> {}</p>").format(risk.name.lower(), risk.text) for risk in found]
    if decision.runner_up is not None:
        parts.append(Markup("<p>Runner-up: {}</p>").format(decision.runner_up_reason))
    parts += [Markup("<p>{}</p>").format(relaxation.text) for relaxation in decision.relaxations]
    if decision.pick is not None:
        parts += [_table(view), _plot(view)]
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


def _plot(view: RunView) -> Markup:
    """Draw accuracy against p90 latency (logarithmic) as SVG: the pick ringed, the budget a line, the front solid."""
    points = [(row, *figures) for row in view.ok if (figures := _figures(row)) is not None]
    if len(points) < 2:
        return Markup("")
    limit = view.budget.latency_ms
    across = [math.log10(x) for _, x, _ in points] + ([math.log10(limit)] if limit else [])
    up = [y for _, _, y in points]

    def position(latency_ms: float, accuracy: float) -> tuple[float, float]:
        x = _share(math.log10(latency_ms), across) * (WIDTH - 2 * MARGIN) + MARGIN
        return x, HEIGHT - MARGIN - _share(accuracy, up) * (HEIGHT - 2 * MARGIN)

    dots = Markup("").join(_dot(view, row, position(x, y)) for row, x, y in points)
    line = _limit(position(limit, up[0])[0], limit) if limit else Markup("")
    corner = (10 ** min(across), 10 ** max(across), min(up), max(up))
    return _frame(corner, f"{view.metric} %") + line + dots + Markup("</svg>")


def _figures(row: Evaluation) -> tuple[float, float] | None:
    latency = row.latency_p90 or row.latency
    if latency is None or row.accuracy is None or latency.value <= 0:
        return None
    return latency.value, row.accuracy.value


def _share(value: float, among: Sequence[float]) -> float:
    low, high = min(among), max(among)
    return 0.5 if high == low else (value - low) / (high - low)


def _frame(corner: tuple[float, float, float, float], title: str) -> Markup:
    left, right, low, high = (text.number(value) for value in corner)
    base = HEIGHT - MARGIN
    labels = (
        (MARGIN, base + 16, "start", f"{left} ms"),
        (WIDTH - MARGIN, base + 16, "end", f"{right} ms"),
        (MARGIN - 6, base, "end", low),
        (MARGIN - 6, MARGIN + 4, "end", high),
        (WIDTH / 2, HEIGHT - 8, "middle", "latency, 90th percentile (logarithmic)"),
        (MARGIN - 6, 16, "start", title),
    )
    words = Markup("").join(
        Markup('<text x="{}" y="{}" text-anchor="{}" font-size="11" fill="currentColor">{}</text>').format(*label)
        for label in labels
    )
    opening = Markup(
        '<svg role="img" aria-label="Accuracy against latency" style="max-width:100%" '
        'width="{0}" viewBox="0 0 {0} {1}">'
    )
    axes = Markup('<path d="M{0} {0}V{1}H{2}" fill="none" stroke="currentColor" opacity=".4"/>')
    return opening.format(WIDTH, HEIGHT) + axes.format(MARGIN, base, WIDTH - MARGIN) + words


def _limit(x: float, limit_ms: float) -> Markup:
    line = Markup('<path d="M{0:.1f} {1}V{2}" stroke="#d9540b" stroke-dasharray="5 4"><title>{3}</title></path>')
    return line.format(x, MARGIN - 10, HEIGHT - MARGIN, f"budget {text.number(limit_ms)} ms")


def _dot(view: RunView, row: Evaluation, at: tuple[float, float]) -> Markup:
    key = row.configuration.key
    opacity = 1 if key in view.front_keys else 0.3
    ring = Markup(' stroke="currentColor" stroke-width="3"') if key == view.pick_key else Markup("")
    title = escape(f"{text.name(row)}: {text.percent(row.accuracy)} %")
    dot = Markup('<circle cx="{:.1f}" cy="{:.1f}" r="{}" fill="#0b6e69" opacity="{}"{}><title>{}</title></circle>')
    return dot.format(*at, 7 if ring else 4, opacity, ring, title)
