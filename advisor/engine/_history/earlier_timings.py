"""Take over what was measured on a device for earlier runs of the same files.

A re-evaluation predicts every file anew. A file that ran on the device before, under whatever
name the user gave it then, has the latency from then in place of the prediction.
"""

from collections.abc import Iterable
from dataclasses import replace

from advisor.core import Evaluation, Status, Target


def with_latency_of(row: Evaluation, measured: Evaluation) -> Evaluation:
    """Return an evaluation with what was measured of the same file on the same target."""
    return replace(
        row,
        latency=measured.latency,
        latency_p90=measured.latency_p90,
        memory=measured.memory or row.memory,
        timing=measured.timing,
        remote=measured.remote,
        latency_distribution=None,
        budget_probability=None,
    )


def with_earlier_timings(
    evaluations: Iterable[Evaluation], earlier: Iterable[Evaluation]
) -> tuple[Evaluation, ...]:
    """Return the evaluations; those of files that ran on the same target before have the latency
    from then. Of two earlier ones of a file, the later in ``earlier`` counts.
    """
    measured_by_file = {}
    for row in earlier:
        is_measured = row.remote is not None and row.latency is not None
        if row.status is Status.OK and is_measured and row.artefact_sha256:
            measured_by_file[_identify_file(row)] = row
    updated = []
    for row in evaluations:
        measured = measured_by_file.get(_identify_file(row))
        if row.status is Status.OK and measured is not None:
            row = with_latency_of(row, measured)
        updated.append(row)
    return tuple(updated)


def with_day(evaluations: Iterable[Evaluation], day: str) -> list[Evaluation]:
    """Return the evaluations; a measured latency that does not say on which day has ``day``,
    that of its run.
    """
    if not day:
        return list(evaluations)
    dated = []
    for row in evaluations:
        latency = row.latency
        timing = row.timing
        if row.remote is None or latency is None or timing is None or timing.measured_at:
            dated.append(row)
            continue
        source = f"{latency.source}; measured on {day}"
        dated.append(
            replace(
                row,
                latency=replace(latency, source=source),
                timing=replace(timing, measured_at=day),
            )
        )
    return dated


def describe_earlier(evaluations: Iterable[Evaluation]) -> str:
    """Return that earlier measurements stay, with their days;
    empty if all latencies are predicted.
    """
    days = set()
    for row in evaluations:
        if row.remote is not None and row.timing is not None:
            days.add(row.timing.measured_at[:10])
    if not days:
        return ""
    # Runs of earlier versions do not say on which day they measured.
    known_days = sorted(filter(None, days))
    when = "before"
    if known_days:
        when = f"on {', '.join(known_days)}"
    return f"what was measured {when} stays"


def _identify_file(row: Evaluation) -> tuple[str, Target]:
    """Return a file and its target, by whatever name the user called the device."""
    return row.artefact_sha256, replace(row.configuration.target, device="")
