"""The answer of ``advisor benchmark`` on the terminal, for this machine and for other devices and accelerators."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from advisor.core.quantity import Provenance, Quantity
from advisor.core.units import plural
from advisor.devices.profiles.measurements import SOURCE
from advisor.measurement.latency import LatencyResult, ModelTiming, Ratio, Verdict
from advisor.measurement.latency.session import Benchmark, FileBenchmark
from advisor.measurement.on_device import DeviceBenchmark, DeviceRow
from advisor.reporting import blocks, text
from advisor.reporting.console import WIDE, show
from advisor.reporting.profile import delegation_lines
from advisor.reporting.selection import Rows, rows_of
from advisor.reporting.text import figure, span

LOOKS = {Verdict.STABLE: "good", Verdict.UNSTABLE: "warn", Verdict.CONTENDED: "strong warn"}
LATENCY = (
    blocks.TableColumn("", left=True),
    blocks.TableColumn("thr."),
    blocks.TableColumn("median ms"),
    blocks.TableColumn("95 % ms"),
    blocks.TableColumn("p90 ms"),
    blocks.TableColumn("p99 ms", width=WIDE),
    blocks.TableColumn("min ms", width=WIDE),
    blocks.TableColumn("max ms", width=WIDE),
    blocks.TableColumn("CV %", width=WIDE),
    blocks.TableColumn("CPU ms"),
    blocks.TableColumn("runs", width=WIDE),
    blocks.TableColumn("verdict", left=True),
)
LOADING = blocks.columns("", "file MB", "arena MB", "peak MB", "load ms", "from bytes ms", "first run ms", left=("",))
RATIOS = blocks.columns("", "thr.", "times the first", "95 %", "differs", left=("", "differs"))
PIPELINE = blocks.columns("", "decode", "norm.", "copy in", "model", "copy out", "answer", "pipeline ms", left=("",))
DEVICE = blocks.columns(
    "file", "thr.", "ms", "interval ms", "first ms", "load ms", "memory MB", "arena MB", "", left=("file", "")
)
FileTiming = tuple[FileBenchmark, LatencyResult | None]
"""A file at one thread count; None if it could not be measured."""

TIMINGS: Rows[FileTiming] = rows_of(
    {
        "file": "0.model", "size_bytes": "0.size_bytes", "arena_bytes": "0.arena_bytes", "threads": "1.threads",
        "latency_median_ms": "1.wall.median", "latency_p90_ms": "1.wall.p90", "latency_cpu_ms": "1.cpu.median",
        "load_ms": "1.load_ms", "first_ms": "1.first_ms", "verdict": "1.verdict", "failure": "0.failure",
    }
)  # fmt: skip
"""Timings of files on this machine."""

DEVICE_ROWS: Rows[DeviceRow] = rows_of(
    {
        "file": "model", "device": "device", "threads": "threads", "latency_median_ms": "latency.value",
        "first_ms": "first_ms", "load_ms": "load_ms", "memory_bytes": "memory_bytes", "arena_bytes": "arena_bytes",
        "size_bytes": "size_bytes", "runtime": "runtime", "status": "status",
    }
)  # fmt: skip
"""Timings of files on devices."""

DEVICE_LOOKS = {"failed": "strong bad", "throttled": "strong warn", "contended": "warn", "unstable": "warn"}


def timings(found: Benchmark) -> tuple[FileTiming, ...]:
    """Return every file at every thread count."""
    return tuple((file, row) for file in found.files for row in (file.timing.results if file.timing else (None,)))


def with_timings(found: Benchmark, shown: Sequence[FileTiming]) -> Benchmark:
    """Return a benchmark with some of its timings: files in the order of their first one."""
    by_file: dict[str, list[LatencyResult]] = {}
    for file, row in shown:
        by_file.setdefault(file.model, []).extend([row] if row else [])
    known = {file.model: file for file in found.files}
    files = (
        replace(file, timing=file.timing and replace(file.timing, results=tuple(rows)))
        for file, rows in ((known[model], rows) for model, rows in by_file.items())
    )
    return replace(found, files=tuple(files))


def print_benchmark(
    found: Benchmark, console: Console | None = None, timed: Sequence[FileTiming] | None = None
) -> None:
    """Write the tables and sentences to ``console``, or to standard output.

    Args:
        found: what was measured.
        console: where to.
        timed: rows of the table of latencies, in their order; all of them if None.
    """
    names = short_names(found)
    timed = timings(found) if timed is None else timed
    shown: list[blocks.Block] = [*_head(found, names), blocks.DataTable(LATENCY, list(_latencies(timed, names)))]
    shown += _reasons(found, names)
    if found.ratios:
        shown.append(blocks.DataTable(RATIOS, [_ratio(row, names) for row in found.ratios]))
    loading = [_loading(names[file.model], file, file.timing) for file in found.files if file.timing]
    shown.append(blocks.DataTable(LOADING, loading))
    if any(file.loaded for file in found.files):
        shown += [
            blocks.Heading("With a load on the other processors"),
            blocks.DataTable(LATENCY, list(_loaded(found, names))),
        ]
    if any(file.pipeline for file in found.files):
        shown += [
            blocks.Heading("From an image to an answer, ms"),
            blocks.DataTable(PIPELINE, list(_pipelines(found, names))),
        ]
    show([*shown, *_sentences(found, names)], console)


def short_names(found: Benchmark) -> dict[str, str]:
    """Return a letter for each file, or none for a single file."""
    if len(found.files) == 1:
        return {found.files[0].model: ""}
    return {file.model: _letters(index) for index, file in enumerate(found.files)}


def _letters(index: int) -> str:
    """Return A, B, ..., Z, AA, AB, ... for 0, 1, ..."""
    return (_letters(index // 26 - 1) if index >= 26 else "") + chr(ord("A") + index % 26)


def _head(found: Benchmark, names: dict[str, str]) -> Iterator[blocks.Block]:
    for file in found.files:
        letter = names[file.model]
        name = Path(file.model).name if len({Path(other).name for other in names}) == len(names) else file.model
        yield blocks.Paragraph(
            (
                blocks.Span(letter and f"{letter} ", "strong"),
                blocks.Span(letter and " ", "strong"),
                blocks.Span(name, "strong"),
            )
        )
    kernels = "XNNPACK off" if found.kernels == "builtin" else "XNNPACK on"
    yield blocks.Paragraph(f"{found.runtime}, {kernels}, effort {found.effort}, on {found.host}", "dim")


def _latencies(timed: Sequence[FileTiming], names: dict[str, str]) -> Iterator[list[blocks.Words]]:
    for file, row in timed:
        if row is None:
            blanks = [text.MISSING] * (len(LATENCY) - 2)
            yield [names[file.model], *blanks, blocks.Span("failed", "strong bad")]
        else:
            yield _latency(names[file.model], row)


def _loaded(found: Benchmark, names: dict[str, str]) -> Iterator[list[blocks.Words]]:
    for file in found.files:
        for row in file.loaded:
            yield [*_latency(names[file.model], row)[:-1], blocks.Span("as requested", "dim")]


def _latency(name: str, row: LatencyResult) -> list[blocks.Words]:
    wall = row.wall
    return [
        name,
        str(row.threads),
        figure(wall.median),
        span(wall.low, wall.high),
        figure(wall.p90),
        figure(wall.p99),
        figure(wall.min),
        figure(wall.max),
        f"{wall.cv:.1%}".rstrip("%"),
        figure(row.cpu.median if row.cpu else None),
        str(wall.runs),
        blocks.Span(row.verdict.value, LOOKS[row.verdict]),
    ]


def _reasons(found: Benchmark, names: dict[str, str]) -> Iterator[blocks.Block]:
    """Return the reason for each verdict, on one line where all are stable."""
    timed = [(file, row) for file in found.files if file.timing for row in file.timing.results]
    if len(timed) > 1 and all(row.verdict is Verdict.STABLE for _, row in timed):
        most = max(row.wall.block_cv for _, row in timed)
        yield blocks.Labelled("Verdict", f"all stable, block medians vary by {most:.1%} at most", "good")
    else:
        for file, row in timed:
            label = f"{names[file.model]}, {plural(row.threads, 'thread')}".removeprefix(", ")
            ranked = f"; ranked by {row.clock.partition(',')[0]}: {figure(row.rank_ms)} ms" if row.contended else ""
            yield blocks.Labelled(label, f"{row.verdict.value}, {row.reason}{ranked}", LOOKS[row.verdict])
    for file in found.failed:
        yield blocks.Labelled("Failed", file.failure, "bad")


def _ratio(row: Ratio, names: dict[str, str]) -> list[blocks.Words]:
    differs = "no, the interval contains 1" if not row.differs else "slower" if row.ratio > 1 else "faster"
    return [names[row.model], str(row.threads), f"{row.ratio:.3f}", f"{row.low:.3f}\u2013{row.high:.3f}", differs]


def _loading(name: str, file: FileBenchmark, timing: ModelTiming) -> list[blocks.Words]:
    first, peak = timing.results[0], timing.peak_memory_bytes
    sizes = [file.size_bytes / 1e6, file.arena_bytes / 1e6, None if peak is None else peak / 1e6]
    return [name, *map(figure, (*sizes, first.load_ms, timing.load_content_ms, first.first_ms))]


def _pipelines(found: Benchmark, names: dict[str, str]) -> Iterator[list[blocks.Words]]:
    for file in found.files:
        if (row := file.pipeline) is not None:
            steps = (row.decode_ms, row.normalise_ms, row.copy_in_ms, row.invoke_ms, row.copy_out_ms, row.answer_ms)
            yield [names[file.model], *map(figure, steps), figure(row.pipeline_ms)]


def _sentences(found: Benchmark, names: dict[str, str]) -> Iterator[blocks.Block]:
    for file in found.files:
        for sentence in file.advice:
            yield blocks.Labelled(names[file.model] or "Found", sentence)
    for note in found.notes:
        yield blocks.Labelled("Note", note, "warn")
    model = next((file.model for file in found.files if file.timing), None)
    if model is not None:
        yield blocks.next_command(f"advisor profile {model}")


def print_device_benchmark(found: DeviceBenchmark, console: Console | None = None) -> None:
    """Write the table and sentences to ``console``, or to standard output."""
    where = ":".join(filter(None, (found.device, found.target)))
    shown: list[blocks.Block] = [
        blocks.Paragraph((blocks.Span(where, "strong"), f"  {_how(found)}")),
        blocks.DataTable(DEVICE, list(map(_device_row, found.rows))),
    ]
    shown += _remarks(found)
    shown += delegation_lines([(Path(model).name, delegation) for model, delegation in found.delegations])
    show(shown, console)


def _how(found: DeviceBenchmark) -> str:
    """Return how the figures were obtained."""
    if not found.connection:
        return _not_measured([row.latency for row in found.rows if row.latency])
    where = "on this machine, in turn" if not found.target else f"over {found.connection}"
    return text.plain(f"measured {where}, effort {found.effort}")


def _not_measured(latencies: Sequence[Quantity]) -> str:
    """Return how figures without a connection were obtained: published by others, predicted, or both."""
    provenances = {latency.provenance for latency in latencies}
    published = "published by others" if Provenance.PUBLISHED in provenances else ""
    predicted = "predicted from measurements of other models on this and similar devices"
    if any(latency.source.startswith(SOURCE) for latency in latencies):
        predicted = f"predicted from {SOURCE}"
    known = " or ".join(filter(None, (published, predicted if provenances != {Provenance.PUBLISHED} else "")))
    return f"{known}, not measured: 80 % intervals"


def _device_row(row: DeviceRow) -> list[blocks.Words]:
    latency, status = row.latency, row.status
    interval = text.MISSING
    if latency and latency.low is not None and latency.high is not None:
        interval = span(latency.low, latency.high)
    return [
        _file_of(row),
        str(row.threads) if row.threads else text.MISSING,
        figure(latency.value if latency else None),
        interval,
        figure(row.first_ms),
        figure(row.load_ms),
        figure(None if row.memory_bytes is None else row.memory_bytes / 1e6),
        figure(row.arena_bytes / 1e6),
        blocks.Span(status, DEVICE_LOOKS.get(status, "command" if status == Provenance.PREDICTED else "")),
    ]


def _file_of(row: DeviceRow) -> str:
    """Return the name of a row's file, with the device if the rows are of several."""
    return f"{Path(row.model).name} in {row.device}" if row.device else Path(row.model).name


def _remarks(found: DeviceBenchmark) -> Iterator[blocks.Block]:
    for row in found.rows:
        name = _file_of(row)
        if row.failure:
            yield blocks.Labelled("Failed", row.failure, "bad")
        elif row.agreement:
            yield blocks.Labelled("Outputs", f"{name}: {_agreement(row)}", "good" if row.agreement.alike else "bad")
        elif row.reason:
            yield blocks.Labelled(
                "Note", f"{name}, {plural(row.threads, 'thread')}: {row.reason}", "warn" if row.throttled else ""
            )
    for ratio in found.ratios:
        differs = "" if ratio.differs else ", which is not a significant difference"
        first, other = Path(ratio.reference).name, Path(ratio.model).name
        yield blocks.Labelled(
            "Ratio", f"{other} takes {ratio.ratio:.3f} times {first} [{span(ratio.low, ratio.high)}]{differs}"
        )
    yield from (blocks.Labelled("Note", note, "warn") for note in found.notes)


def _agreement(row: DeviceRow) -> str:
    """Return how far the outputs differ from those of the CPU."""
    found = row.agreement
    if found is None:
        return ""
    answer = "the same class" if found.same_answer else "ANOTHER class"
    whole = "fully delegated" if found.whole else "not fully delegated"
    verdict = "agree with" if found.alike else "DIFFER from"
    distance = f"largest difference {found.largest_difference:.3g} of a range of {found.output_range:.3g}"
    return f"{verdict} the CPU's ({distance}, {answer}); {whole}"
