"""The files that ``advisor profile`` writes; the page loads nothing, like the report."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from advisor.compression.diagnosis.values import Diagnosis
from advisor.core.errors import UsageError
from advisor.core.units import plural, show_bytes
from advisor.measurement.operators.profile_values import OperatorTime, Profile
from advisor.reporting.profile.diagnosis import diagnosis_html
from advisor.reporting.profile.profile_table import quality, unsupported
from advisor.reporting.templating import asset, json_for_script, plotly_script, render_page, trusted
from advisor.reporting.text import figure

FILES = {"html": "profile.html", "json": "profile.json"}
"""Forms of a profile, with the names of their files in a folder."""

BARS = 20


def requested_files(folder: Path | None, paths: Mapping[str, Path]) -> dict[str, Path]:
    """Return the file of each requested form, and make their folders before anything is measured.

    Args:
        folder: takes all forms, except those with a path of their own; None for none.
        paths: path of single forms.

    Raises:
        UsageError: a file cannot be written.
    """
    everything = {form: folder / name for form, name in FILES.items()} if folder else {}
    wanted = {**everything, **paths}
    for path in wanted.values():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot write '{path}': {error.strerror}", "choose another place") from error
        if path.is_dir() or not os.access(path.parent, os.W_OK):
            reason = "it is a folder" if path.is_dir() else "its folder is not writable"
            raise UsageError(f"cannot write '{path}': {reason}", "choose another place")
    return wanted


def write_files(profile: Profile, wanted: Mapping[str, Path], diagnosis: Diagnosis | None = None) -> None:
    """Write the requested forms; the diagnosis goes into the JSON and the page.

    Raises:
        UsageError: a file cannot be written.
    """
    for form, path in wanted.items():
        try:
            path.write_text(_content(form, profile, diagnosis), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"cannot write '{path}': {error.strerror}", "choose another place") from error


def _content(form: str, profile: Profile, diagnosis: Diagnosis | None) -> str:
    if form == "html":
        return render(profile, diagnosis)
    more = {"diagnosis": diagnosis.to_json()} if diagnosis else {}
    return json.dumps({**profile.to_json(), **more}, indent=1, allow_nan=False)


def render(profile: Profile, diagnosis: Diagnosis | None = None) -> str:
    """Return the page: the slowest operators, the roofline, every figure in tables; names from the file are escaped.

    Args:
        profile: what was found.
        diagnosis: how the file differs from its float origin, None where it was not requested.
    """
    return render_page(
        "profile",
        styles=["report.css", "profile.css"],
        scripts=[plotly_script(), asset("profile.js")],
        profile=profile,
        name=Path(profile.model).name,
        facts=facts(profile),
        quality=quality(profile),
        diagnosis=diagnosis_html(diagnosis) if diagnosis else None,
        reasons=unsupported,
        data=trusted(json_for_script(payload(profile))),
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
    partitions = "off" if profile.kernels == "builtin" else plural(profile.partitions, "partition")
    return (
        (
            "A run",
            f"{figure(profile.plain_us / 1e3)} ms",
            f"median of {plural(profile.runs, 'run')}, {plural(profile.threads, 'thread')}",
        ),
        ("Operators / run", f"{profile.coverage:.1%}", f"good is 95 to 102 %; profiler {profile.overhead:+.1%}"),
        ("MACs", f"{figure(profile.macs / 1e6)} million", f"{profile.parameters / 1e6:.2f} million parameters"),
        ("Activations", show_bytes(profile.arena_bytes), "peak, computed from their lifetimes"),
        ("XNNPACK", partitions, f"slowest step: {slowest.type}, {slowest.share:.1%}"),
    )


def _bar(row: OperatorTime) -> dict[str, object]:
    return {"label": f"{row.position} {row.type}", "us": row.time_us, "share": row.share, **_common(row)}


def _point(row: OperatorTime) -> dict[str, object]:
    operations = 2 * row.node.macs if row.node else 0
    moved = row.node.bytes_moved if row.node else 1
    return {"x": operations / moved, "y": row.gflops, "us": row.time_us, "share": row.share, **_common(row)}


def _common(row: OperatorTime) -> dict[str, object]:
    output = row.node.outputs[0] if row.node and row.node.outputs else ""
    return {"type": row.type, "where": row.where, "step": row.position, "kernel": row.kernel, "output": output}
