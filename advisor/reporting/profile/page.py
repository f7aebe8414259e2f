"""``profile.html``: the slowest operators, the roofline, every figure in tables; self-contained like the report."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Environment

from advisor.compression.diagnosis.values import Diagnosis
from advisor.core.units import show_bytes
from advisor.measurement.operators.profile_values import OperatorTime, Profile
from advisor.reporting import text
from advisor.reporting.console import figure
from advisor.reporting.escape import json_for_script
from advisor.reporting.profile.delegation_lines import reasons
from advisor.reporting.profile.diagnosis_html import diagnosis_html
from advisor.reporting.profile.profile_table import quality
from advisor.reporting.templating import asset, content_policy, page_environment, plotly_script, trusted

BARS = 20


def render(profile: Profile, diagnosis: Diagnosis | None = None) -> str:
    """Return the whole page; names from the file are escaped.

    Args:
        profile: what was found.
        diagnosis: how the file differs from its float origin, None where it was not requested.
    """
    scripts = (plotly_script(), asset("advisor.reporting.profile", "profile.js"))
    return (
        _environment()
        .get_template("profile.html.j2")
        .render(
            profile=profile,
            name=Path(profile.model).name,
            facts=facts(profile),
            quality=quality(profile),
            diagnosis=diagnosis_html(diagnosis) if diagnosis else None,
            data=trusted(json_for_script(payload(profile))),
            style=trusted(asset("advisor.reporting", "report.css") + asset("advisor.reporting.profile", "profile.css")),
            scripts=[trusted(script) for script in scripts],
            policy=content_policy(scripts),
        )
    )


def payload(profile: Profile) -> dict[str, object]:
    """Return the data of the plots: the slowest operators, the roofline, and every operator below it."""
    roof = profile.roofline
    return {
        "bars": [_bar(row) for row in profile.top(BARS)],
        "points": [_point(row) for row in profile.operators if row.gflops and row.gbytes],
        "roof": {"gflops": roof.gflops, "gbytes": roof.gbytes} if roof else None,
    }


def facts(profile: Profile) -> tuple[tuple[str, str, str], ...]:
    """Return label, figure and remark of the key figures."""
    slowest = profile.top(1)[0]
    return (
        (
            "A run",
            f"{figure(profile.plain_us / 1e3)} ms",
            f"median of {text.plural(profile.runs, 'run')}, {text.threads(profile.threads)}",
        ),
        ("Operators / run", f"{profile.coverage:.1%}", f"good is 95 to 102 %; profiler {profile.overhead:+.1%}"),
        (
            "MACs",
            f"{figure(profile.macs / 1e6)} million",
            f"{profile.parameters / 1e6:.2f} million parameters",
        ),
        ("Activations", show_bytes(profile.arena_bytes), "peak, computed from their lifetimes"),
        ("XNNPACK", _partitions(profile), f"slowest step: {slowest.type}, {slowest.share:.1%}"),
    )


def _partitions(profile: Profile) -> str:
    return "off" if profile.kernels == "builtin" else text.plural(profile.partitions, "partition")


def _bar(row: OperatorTime) -> dict[str, object]:
    return {"label": f"{row.position} {row.type}", "us": row.time_us, "share": row.share, **_common(row)}


def _point(row: OperatorTime) -> dict[str, object]:
    operations = 2 * row.node.macs if row.node else 0
    moved = row.node.bytes_moved if row.node else 1
    return {"x": operations / moved, "y": row.gflops, "us": row.time_us, "share": row.share, **_common(row)}


def _common(row: OperatorTime) -> dict[str, object]:
    output = row.node.outputs[0] if row.node and row.node.outputs else ""
    return {"type": row.type, "where": row.where, "step": row.position, "kernel": row.kernel, "output": output}


@cache
def _environment() -> Environment:
    environment = page_environment("advisor.reporting.profile")
    environment.filters["figure"] = figure
    environment.filters["reasons"] = reasons
    return environment
