"""One graph has one latency on a target: files that differ in their weights alone share their
timings.

The engine pools the timings of a run before each decision (``engine/_decide.py``), so that chance
in the timings of equal files does not choose among them.
"""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from statistics import median

from advisor.core._configuration import Target
from advisor.core._evaluation import Evaluation, Status
from advisor.core._quantity import Provenance, Quantity

CPU = "cpu"


def graph_of(evaluation: Evaluation) -> Hashable:
    """Return what files of the same operators, shapes and types have in common,
    whatever their weights.

    A file that was not read has its graph alone.
    """
    features = evaluation.file_features
    if features is None:
        return evaluation.variant
    return (
        features.macs,
        features.parameters,
        features.input_size,
        features.layers,
        features.form,
        features.arena_bytes,
        tuple(sorted(features.operators.items())),
        features.traits.values,
    )


def place_of(evaluation: Evaluation) -> Target:
    """Return where an evaluation runs;
    the number of CPU threads makes no other place on an accelerator.
    """
    target = evaluation.configuration.target
    return target if target.accelerator == CPU else replace(target, threads=1)


def pool_timings(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """Return the evaluations; measured ones of the same graph in the same place have one latency.

    It is the median of their medians, and so of their 90th percentiles. The interval spans theirs.
    Timings beside other programs count only where there are no others.
    """
    groups: dict[Hashable, list[Evaluation]] = {}
    for evaluation in evaluations:
        if _is_measured(evaluation):
            groups.setdefault((graph_of(evaluation), place_of(evaluation)), []).append(evaluation)
    pooled = dict[str, Evaluation]()
    for files in groups.values():
        if len(files) > 1:
            pooled |= {file.configuration.key: file for file in _with_one_latency(files)}
    return [pooled.get(evaluation.configuration.key, evaluation) for evaluation in evaluations]


def _is_measured(evaluation: Evaluation) -> bool:
    latency = evaluation.latency
    return (
        evaluation.status is Status.OK
        and latency is not None
        and latency.provenance is Provenance.MEASURED
    )


def _with_one_latency(files: Sequence[Evaluation]) -> list[Evaluation]:
    """Return files of one graph in one place with their common latency."""
    undisturbed = [file for file in files if not file.contended]
    timed = undisturbed or list(files)
    latency = _pool_latencies([file.latency for file in timed if file.latency])
    p90 = _pool_latencies([file.latency_p90 for file in timed if file.latency_p90])
    pooled = []
    for file in files:
        pooled.append(
            replace(
                file,
                latency=latency,
                latency_p90=p90 or file.latency_p90,
                contended=not undisturbed,
            )
        )
    return pooled


def _pool_latencies(timings: Sequence[Quantity]) -> Quantity | None:
    if not timings:
        return None
    lows = []
    highs = []
    counts = []
    for timing in timings:
        if timing.low is not None:
            lows.append(timing.low)
        if timing.high is not None:
            highs.append(timing.high)
        if timing.n is not None:
            counts.append(timing.n)
    return replace(
        timings[0],
        value=median(timing.value for timing in timings),
        low=min(lows, default=None),
        high=max(highs, default=None),
        n=sum(counts) if counts else None,
    )
