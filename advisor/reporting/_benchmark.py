"""The answer of ``advisor benchmark`` on the terminal, for this machine and for other devices.

The command calls :func:`print_benchmark` or :func:`print_device_benchmark` with the values of
``measurement``.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

from rich.console import Console

from advisor.core import Provenance, plain, plural
from advisor.measurement import (
    DeviceBenchmark,
    DeviceRow,
    LatencyResult,
    ModelTiming,
    OutputAgreement,
    Pipeline,
    Ratio,
    Verdict,
    session,
)
from advisor.reporting import _blocks as blocks
from advisor.reporting._blocks import WIDE, Block, Cell, Labelled, Span, TableColumn, table_of
from advisor.reporting._profile import delegation_lines
from advisor.reporting._text import figure, span

LOADS = 100
"""Terminal width from which the times of a device's first runs are shown."""

LOOKS = {Verdict.STABLE: "good", Verdict.UNSTABLE: "warn", Verdict.CONTENDED: "strong warn"}
DEVICE_LOOKS = {
    "failed": "strong bad",
    "throttled": "strong warn",
    "contended": "warn",
    "unstable": "warn",
}

LOADING: tuple[TableColumn[tuple[str, session.FileBenchmark, ModelTiming]], ...] = (
    TableColumn("", lambda row: row[0], left=True),
    TableColumn("file MB", lambda row: row[1].size_bytes / 1e6),
    TableColumn("arena MB", lambda row: row[1].arena_bytes / 1e6),
    TableColumn("peak MB", lambda row: _to_megabytes(row[2].peak_memory_bytes)),
    TableColumn("load ms", lambda row: row[2].results[0].load_ms),
    TableColumn("from bytes ms", lambda row: row[2].load_content_ms),
    TableColumn("first run ms", lambda row: row[2].results[0].first_ms),
)
RATIOS: tuple[TableColumn[tuple[str, Ratio]], ...] = (
    TableColumn("", lambda row: row[0], left=True),
    TableColumn("thr.", lambda row: row[1].threads),
    TableColumn("times the first", lambda row: f"{row[1].ratio:.3f}"),
    TableColumn("95 %", lambda row: f"{row[1].low:.3f}\u2013{row[1].high:.3f}"),
    TableColumn("differs", lambda row: _show_direction(row[1]), left=True),
)
PIPELINE: tuple[TableColumn[tuple[str, Pipeline]], ...] = (
    TableColumn("", lambda row: row[0], left=True),
    TableColumn("decode", lambda row: row[1].decode_ms),
    TableColumn("norm.", lambda row: row[1].normalise_ms),
    TableColumn("copy in", lambda row: row[1].copy_in_ms),
    TableColumn("model", lambda row: row[1].invoke_ms),
    TableColumn("copy out", lambda row: row[1].copy_out_ms),
    TableColumn("answer", lambda row: row[1].answer_ms),
    TableColumn("pipeline ms", lambda row: row[1].pipeline_ms),
)


def _show_direction(ratio: Ratio) -> str:
    if not ratio.differs:
        return "no, the interval contains 1"
    return "slower" if ratio.ratio > 1 else "faster"


def print_benchmark(
    benchmark: session.Benchmark,
    console: Console | None = None,
    timed: Sequence[tuple[session.FileBenchmark, LatencyResult | None]] | None = None,
) -> None:
    """Write the tables and sentences to the console;
    the first table has the latencies ``timed``, all if None.
    """
    names = _name_files(benchmark)
    timed = benchmark.timings if timed is None else timed
    latencies = [(names[file.model], row, _show_verdict(row)) for file, row in timed]
    shown: list[Block] = [
        *_describe_files(benchmark, names),
        table_of(_list_timing_columns(), latencies),
        *_explain_verdicts(benchmark, names),
    ]
    if benchmark.ratios:
        shown.append(table_of(RATIOS, [(names[row.model], row) for row in benchmark.ratios]))
    runs = []
    under_load = []
    pipelines = []
    for file in benchmark.files:
        name = names[file.model]
        if file.timing:
            runs.append((name, file, file.timing))
        for row in file.loaded:
            under_load.append((name, row, Span("as requested", "dim")))
        if file.pipeline:
            pipelines.append((name, file.pipeline))
    shown.append(table_of(LOADING, runs))
    if under_load:
        shown.append(blocks.Heading("With a load on the other processors"))
        shown.append(table_of(_list_timing_columns(), under_load))
    if pipelines:
        shown.append(blocks.Heading("From an image to an answer, ms"))
        shown.append(table_of(PIPELINE, pipelines))
    for file in benchmark.files:
        for sentence in file.advice:
            shown.append(Labelled(names[file.model] or "Found", sentence))
    for note in benchmark.notes:
        shown.append(Labelled("Note", note, "warn"))
    if runs:
        _, first, _ = runs[0]
        shown.append(blocks.next_command(f"advisor profile {first.model}"))
    blocks.show(shown, console)


def _name_files(benchmark: session.Benchmark) -> dict[str, str]:
    """Return the letters of the files, as tables name them; a single file needs none."""
    if len(benchmark.files) == 1:
        return {benchmark.files[0].model: ""}
    return {file.model: _make_letters(index) for index, file in enumerate(benchmark.files)}


def _make_letters(index: int) -> str:
    """Return the letters of a file as columns of a sheet have them: A to Z, then AA."""
    last = chr(ord("A") + index % 26)
    if index < 26:
        return last
    return _make_letters(index // 26 - 1) + last


def _describe_files(benchmark: session.Benchmark, names: dict[str, str]) -> Iterator[Block]:
    unlike = len({Path(model).name for model in names}) == len(names)
    for model, letter in names.items():
        # Files of one name in several folders need their paths.
        name = Path(model).name if unlike else model
        parts = (letter and f"{letter} ", letter and " ", name)
        yield blocks.Paragraph(tuple(Span(part, "strong") for part in parts))
    kernels = "XNNPACK off" if benchmark.kernels == "builtin" else "XNNPACK on"
    yield blocks.Paragraph(
        f"{benchmark.runtime}, {kernels}, effort {benchmark.effort}, on {benchmark.host}", "dim"
    )


Timed = tuple[str, LatencyResult | None, Span]
"""A row of the table of latencies: the name of the file, its timing, and the verdict on it."""


def _show_verdict(row: LatencyResult | None) -> Span:
    if row:
        return Span(row.verdict.value, LOOKS[row.verdict])
    return Span("failed", "strong bad")


def _make_timing_column(
    title: str, cell: Callable[[LatencyResult], Cell], width: int = 0
) -> TableColumn[Timed]:
    """Return a column of a figure, with a dash for a file that could not be measured."""
    return TableColumn(title, lambda row: cell(row[1]) if row[1] else None, width=width)


def _to_megabytes(size: int | None) -> float | None:
    return None if size is None else size / 1e6


@cache
def _list_timing_columns() -> tuple[TableColumn[Timed], ...]:
    """Return the columns of the timings of one file."""
    return (
        TableColumn("", lambda row: row[0], left=True),
        _make_timing_column("thr.", lambda row: row.threads),
        _make_timing_column("median ms", lambda row: row.wall.median),
        _make_timing_column("95 % ms", lambda row: span(row.wall.low, row.wall.high)),
        _make_timing_column("p90 ms", lambda row: row.wall.p90),
        _make_timing_column("p99 ms", lambda row: row.wall.p99, WIDE),
        _make_timing_column("min ms", lambda row: row.wall.min, WIDE),
        _make_timing_column("max ms", lambda row: row.wall.max, WIDE),
        _make_timing_column("CV %", lambda row: f"{row.wall.cv:.1%}".rstrip("%"), WIDE),
        _make_timing_column("CPU ms", lambda row: row.cpu.median if row.cpu else None),
        _make_timing_column("runs", lambda row: row.wall.runs, WIDE),
        TableColumn("verdict", lambda row: row[2], left=True),
    )


def _explain_verdicts(benchmark: session.Benchmark, names: dict[str, str]) -> Iterator[Block]:
    """Yield the reason for each verdict, on one line where all are stable."""
    timed = []
    for file in benchmark.files:
        if file.timing:
            timed += [(file, row) for row in file.timing.results]
    are_stable = all(row.verdict is Verdict.STABLE for _, row in timed)
    if len(timed) > 1 and are_stable:
        most = max(row.wall.block_cv for _, row in timed)
        yield Labelled("Verdict", f"all stable, block medians vary by {most:.1%} at most", "good")
    else:
        for file, row in timed:
            label = f"{names[file.model]}, {plural(row.threads, 'thread')}".removeprefix(", ")
            sentence = f"{row.verdict.value}, {row.reason}"
            if row.contended:
                clock = row.clock.partition(",")[0]
                sentence += f"; ranked by {clock}: {figure(row.rank_ms)} ms"
            yield Labelled(label, sentence, LOOKS[row.verdict])
    for file in benchmark.failed:
        yield Labelled("Failed", file.failure, "bad")


def _show_ends(row: DeviceRow) -> str | None:
    ends = row.latency
    if ends is None or ends.low is None or ends.high is None:
        return None
    return span(ends.low, ends.high)


def _name_file(row: DeviceRow) -> str:
    """Return the name of a row's file, with the device if the rows are of several."""
    if row.device:
        return f"{Path(row.model).name} in {row.device}"
    return Path(row.model).name


def _show_status(row: DeviceRow) -> Span:
    otherwise = "command" if row.status == Provenance.PREDICTED else ""
    return Span(row.status, DEVICE_LOOKS.get(row.status, otherwise))


@cache
def _list_device_columns() -> tuple[TableColumn[DeviceRow], ...]:
    """Return the columns of files on devices."""
    return (
        TableColumn("file", _name_file, left=True),
        TableColumn("thr.", lambda row: row.threads or None),
        TableColumn("ms", lambda row: row.latency.value if row.latency else None),
        TableColumn("interval ms", _show_ends, whole=True),
        TableColumn("first ms", lambda row: row.first_ms, width=LOADS),
        TableColumn("load ms", lambda row: row.load_ms, width=LOADS),
        TableColumn("memory MB", lambda row: _to_megabytes(row.memory_bytes)),
        TableColumn("arena MB", lambda row: row.arena_bytes / 1e6),
        TableColumn("", _show_status, left=True),
    )


def print_device_benchmark(benchmark: DeviceBenchmark, console: Console | None = None) -> None:
    """Write the table and sentences to ``console``, or to standard output."""
    where = ":".join(filter(None, (benchmark.device, benchmark.target)))
    head = blocks.Paragraph((Span(where, "strong"), f"  {_describe_origin(benchmark)}"))
    files = [(Path(model).name, delegation) for model, delegation in benchmark.delegations]
    blocks.show(
        [
            head,
            table_of(_list_device_columns(), benchmark.rows),
            *_list_remarks(benchmark),
            *delegation_lines(files),
        ],
        console,
    )


def _describe_origin(benchmark: DeviceBenchmark) -> str:
    """Return how the figures were obtained:
    measured, published by others, predicted, or both of the latter.
    """
    if benchmark.connection:
        where = "on this machine, in turn"
        if benchmark.target:
            where = f"over {benchmark.connection}"
        return plain(f"measured {where}, effort {benchmark.effort}")
    latencies = [row.latency for row in benchmark.rows if row.latency]
    provenances = {latency.provenance for latency in latencies}
    origins = ["published by others"] if Provenance.PUBLISHED in provenances else []
    if provenances != {Provenance.PUBLISHED}:
        origins.append(f"predicted from {benchmark.basis}")
    return f"{' or '.join(origins)}, not measured: 80 % intervals"


def _list_remarks(benchmark: DeviceBenchmark) -> Iterator[Block]:
    """Yield failures, how exports answer, what disturbed a timing, ratios, and notes."""
    for row in benchmark.rows:
        name = _name_file(row)
        if row.failure:
            yield Labelled("Failed", row.failure, "bad")
        elif row.agreement:
            yield Labelled(
                "Outputs",
                f"{name}: {_describe_agreement(row.agreement)}",
                "good" if row.agreement.alike else "bad",
            )
        elif row.reason:
            sentence = f"{name}, {plural(row.threads, 'thread')}: {row.reason}"
            yield Labelled("Note", sentence, "warn" if row.throttled else "")
    for ratio in benchmark.ratios:
        differs = "" if ratio.differs else ", which is not a significant difference"
        takes = (
            f"{Path(ratio.model).name} takes {ratio.ratio:.3f} times {Path(ratio.reference).name}"
        )
        yield Labelled("Ratio", f"{takes} [{span(ratio.low, ratio.high)}]{differs}")
    for note in benchmark.notes:
        yield Labelled("Note", note, "warn")


def _describe_agreement(agreement: OutputAgreement) -> str:
    """Return how far the outputs differ from those of the CPU."""
    answer = "the same class" if agreement.same_answer else "ANOTHER class"
    whole = "fully delegated" if agreement.whole else "not fully delegated"
    verdict = "agree with" if agreement.alike else "DIFFER from"
    distance = (
        f"largest difference {agreement.largest_difference:.3g} of a range of"
        f" {agreement.output_range:.3g}"
    )
    return f"{verdict} the CPU's ({distance}, {answer}); {whole}"
