"""Timings of files on this machine: sorted and filtered, on the terminal and in the document."""

import io

from rich.console import Console

from advisor.cli._files import TIMING_COLUMNS
from advisor.measurement import LatencyResult, ModelTiming, host, session
from advisor.measurement._host import Conditions
from advisor.reporting import Rows, print_benchmark
from tests.measurement.latency.test_latency import QUIET, series


def timed(model: str, *latencies_ms: float) -> session.FileBenchmark:
    """Return a file with a latency for each thread count from 1 on; without any it failed."""
    results: list[LatencyResult] = [
        LatencyResult.of_series(series([[value] * 3] * 8, None, threads), QUIET)
        for threads, value in enumerate(latencies_ms, start=1)
    ]
    timing = ModelTiming(model, tuple(results), None, None, None, None, "litert", "quick", host.describe())
    return session.FileBenchmark(model, 4_000_000, 1000, timing if results else None, "" if results else "damaged")


FILES = (timed("slow.tflite", 9.0, 6.0), timed("fast.tflite", 7.0, 3.0), timed("broken.tflite"))
FOUND = session.Benchmark(FILES, (), "quick", "default", Conditions(2, 0.0), host.describe(), ())


def test_timings_are_sorted_across_files_and_keep_the_letters() -> None:
    shown = Rows.of_paths(TIMING_COLUMNS).select("latency").of(FOUND.timings)
    print_benchmark(FOUND, console := Console(file=io.StringIO(), width=80), shown)
    table = console.file.getvalue().partition("verdict")[2].partition("\n\n")[0]
    *rows, last = (line.split()[:3] for line in table.splitlines() if line[:1] in ("A", "B", "C"))
    assert rows == [["B", "2", "3.00"], ["A", "2", "6.00"], ["B", "1", "7.00"], ["A", "1", "9.00"]]
    assert last[0] == "C"


def test_the_document_has_the_files_and_timings_that_pass_and_a_failed_file_can_be_selected() -> None:
    shown = Rows.of_paths(TIMING_COLUMNS).select("latency", ["threads=1", "latency<8ms"]).of(FOUND.timings)
    (file,) = FOUND.select_timings(shown).files
    assert (file.model, [row.threads for row in file.timing.results]) == ("fast.tflite", [1])
    shown = Rows.of_paths(TIMING_COLUMNS).select("", ["failure=*damaged*"]).of(FOUND.timings)
    assert [file.model for file in FOUND.select_timings(shown).files] == ["broken.tflite"]
