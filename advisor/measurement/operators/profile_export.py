"""Export a profile as tables of ``benchmark_model``, and as a trace for Perfetto."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from advisor.measurement.operators.profile_values import OperatorTime, Profile

_OPERATOR_COLUMNS = (
    *("[node type]", "[start]", "[first]", "[avg ms]", "[%]", "[cdf%]", "[mem KB]", "[times called]", "[Name]"),
)
_TYPE_COLUMNS = ("[Node type]", "[count]", "[avg ms]", "[avg %]", "[cdf %]", "[mem KB]", "[times called]")


def to_tsv(profile: Profile) -> str:
    """Return three tab-separated tables: run order, top by computation time, summary by node type.

    Columns and titles are those of ``benchmark_model --enable_op_profiling=true``, so that the same spreadsheets read
    them. ``[mem KB]`` is the size of the activations and constants that an operator reads and writes.
    """
    starts = _starts(profile)
    ordered = [_operator_row(row, starts[row.position], row.cumulative) for row in profile.operators]
    top = sorted(profile.operators, key=lambda row: -row.time_us)
    cumulative = accumulate(row.share for row in top)
    ranked = [_operator_row(row, starts[row.position], part) for row, part in zip(top, cumulative, strict=True)]
    types = [
        (
            _cell(f"{row.where}/{row.type}"),
            str(row.count),
            _ms(row.time_us),
            _percent(row.share),
            _percent(row.cumulative),
            "0.000",
            str(row.count),
        )
        for row in profile.by_type
    ]
    parts = (
        _table("Run Order", _OPERATOR_COLUMNS, ordered),
        _table("Top by Computation Time", _OPERATOR_COLUMNS, ranked),
        _table("Summary by node type", _TYPE_COLUMNS, types),
    )
    return "\n".join(parts)


def to_trace(profile: Profile) -> dict[str, object]:
    """Return one run as complete events (``ph: X``) of the Trace Event Format; XNNPACK and builtin are two tracks."""
    tracks = {"XNNPACK": 1, "builtin": 2}
    starts = _starts(profile)
    names = [_metadata("process_name", 0, f"{profile.model} ({profile.runtime}, {profile.threads} threads)")]
    names += [_metadata("thread_name", track, name) for name, track in tracks.items()]
    events = [
        {
            "name": row.type,
            "cat": row.where,
            "ph": "X",
            "ts": round(starts[row.position], 3),
            "dur": round(row.time_us, 3),
            "pid": 1,
            "tid": tracks[row.where],
            "args": _arguments(row),
        }
        for row in profile.operators
    ]
    return {"displayTimeUnit": "ms", "traceEvents": names + events}


def _starts(profile: Profile) -> list[float]:
    """Return the start of each operator in microseconds, without gaps between operators."""
    ends = list(accumulate(row.time_us for row in profile.operators))
    return [0.0, *ends[:-1]]


def _operator_row(row: OperatorTime, start_us: float, cumulative: float) -> tuple[str, ...]:
    moved_kb = row.node.bytes_moved / 1024 if row.node else 0.0
    name = "[Delegate]" if row.where == "XNNPACK" else "[Builtin]"
    return (
        _cell(row.type if row.where == "builtin" else f"Delegate/{row.kernel}"),
        _ms(start_us),
        _ms(row.first_us),
        _ms(row.time_us),
        _percent(row.share),
        _percent(cumulative),
        f"{moved_kb:.3f}",
        "1",
        f"{name}:{row.node.index if row.node else row.position}",
    )


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join([f"=== {title} ===", "\t".join(columns), *("\t".join(row) for row in rows)]) + "\n"


def _arguments(row: OperatorTime) -> dict[str, object]:
    """Return the details that a click on the event shows."""
    arguments: dict[str, object] = {"kernel": row.kernel, "share": round(row.share, 4), "position": row.position}
    if row.node:
        arguments.update(node=row.node.index, inputs=list(row.node.inputs), outputs=list(row.node.outputs))
        arguments.update(macs=row.node.macs, bytes=row.node.bytes_moved)
    return arguments


def _metadata(name: str, track: int, value: str) -> dict[str, object]:
    """Return an event that names a track or a process."""
    return {"name": name, "ph": "M", "pid": 1, "tid": track, "args": {"name": value}}


def _cell(text: str) -> str:
    """Return a text on one line, because operator names in a file are untrusted."""
    return " ".join(text.split())


def _ms(time_us: float) -> str:
    return f"{time_us / 1e3:.4f}"


def _percent(share: float) -> str:
    return f"{share:.3%}"
