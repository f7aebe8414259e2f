"""Measure latency, load time and memory in new child processes, and judge whether to trust them.

Stages of a search call :func:`measure` for the files that ship, and :func:`least_cpu_ms` to screen
cards. ``session.py`` compares files that ran in turn. The limits decide the verdict that is stored
with a timing.
"""

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

from advisor.core import RuntimeRefusal, UsageError, nearest, parse_count
from advisor.isolation import (
    AgentJson,
    agent,
    usable_cores,
)
from advisor.measurement import _host as host
from advisor.measurement._latency import LatencyResult, ModelTiming, Ratio
from advisor.measurement._latency.interpreter_options import InterpreterOptions
from advisor.measurement._latency.summary import compare_pairs
from advisor.measurement._processes import existing_model, run_json

SCREEN_RUNS = 5

DEFAULT = InterpreterOptions()


def effort_named(name: str) -> agent.Effort:
    """Return an effort by name; raise UsageError if there is none of this name."""
    if name not in agent.map_efforts():
        raise UsageError(
            f"unknown effort '{name}'{nearest(name, agent.map_efforts())}",
            f"efforts: {', '.join(agent.map_efforts())}",
        )
    return agent.map_efforts()[name]


def measure(
    model: Path | str,
    threads: Sequence[int] = (1,),
    effort: str = "quick",
    *,
    retry: bool = True,
    setup: InterpreterOptions = DEFAULT,
) -> ModelTiming:
    """Measure one file at each thread count in a new child process;
    memory is measured with the first.

    With ``retry``, a contended thread count is measured again after a pause, and the less
    disturbed attempt is used. UsageError if the file is missing, or a thread count or effort is
    not valid; StageError if the file cannot be loaded or run, or the child crashed or timed out.
    """
    path = existing_model(model)
    counts = thread_counts(threads)
    document = _run_agent([path], counts, effort, setup)
    results = {result.threads: result for result in _read_results(document)}
    contended = [count for count in counts if results[count].contended]
    if retry and contended:
        # What disturbed the first attempt, such as a program that starts,
        # is often over a moment later.
        time.sleep(0.25)
        for result in _read_results(_run_agent([path], contended, effort, setup)):
            if result.disturbance < results[result.threads].disturbance:
                results[result.threads] = result
    memory = document["memory"] or {}
    content = document["load_content_ns"]
    return ModelTiming(
        model=str(model),
        results=tuple(results[count] for count in counts),
        peak_memory_bytes=memory.get("private_bytes"),
        dirty_memory_bytes=memory.get("dirty_bytes"),
        process_memory_bytes=memory.get("process_bytes"),
        load_content_ms=None if content is None else content / 1e6,
        runtime=f"{document['runtime']}=={document['runtime_version']}",
        effort=effort,
        host=host.describe(),
    )


def interleave_files(
    models: Sequence[Path | str],
    threads: Sequence[int] = (1,),
    effort: str = "quick",
    setup: InterpreterOptions = DEFAULT,
) -> tuple[tuple[LatencyResult, ...], ...]:
    """Time several files in one process, block by block in turn,
    so that a drift of the machine affects all equally.

    For each file there is one result for each thread count. Errors are those of :func:`measure`.
    """
    paths = list(map(existing_model, models))
    counts = thread_counts(threads)
    results = _read_results(_run_agent(paths, counts, effort, setup))
    results_of_files = []
    for start in range(0, len(results), len(counts)):
        results_of_files.append(results[start : start + len(counts)])
    return tuple(results_of_files)


def least_cpu_ms(model: Path) -> float:
    """Return the shortest CPU time of ``SCREEN_RUNS`` runs at one thread in this process, in ms.

    At one thread, the calling thread does all the work, and other processes change its CPU time by
    a few percent only. Therefore this can run next to other jobs. Use it to filter with a margin,
    not to recommend a model. UsageError if the file is missing, RuntimeRefusal if the runtime
    cannot load or run it.
    """
    path = existing_model(model)
    try:
        interpreter = agent.new_interpreter(str(path), threads=1, kernels="default")
        interpreter.allocate_tensors()
        agent.set_inputs(interpreter)
        interpreter.invoke()
        times_ns = []
        for _ in range(SCREEN_RUNS):
            start = time.thread_time_ns()
            interpreter.invoke()
            times_ns.append(time.thread_time_ns() - start)
        # The shortest run: whatever disturbs a run only makes it longer.
        return min(times_ns) / 1e6
    except (agent.AgentError, RuntimeError, ValueError) as error:
        raise RuntimeRefusal(f"{path.name}: {agent.one_line(error)}") from error


def compare_with_first(results: Sequence[tuple[str, LatencyResult]]) -> tuple[Ratio, ...]:
    """Compare the results of each further file with those of the first, at every thread count.

    The results of one run are given with the paths of their files. They are compared by CPU time
    if one was contended and both have it, otherwise by wall time; those without a common clock
    (:func:`common_clock`) are not compared.
    """
    name = results[0][0] if results else ""
    first = {result.threads: result for model, result in results if model == name}
    comparisons = []
    for model, result in results:
        reference = first.get(result.threads)
        if model == name or reference is None or not common_clock(reference, result):
            continue
        # Both by one clock: CPU time of one file over wall time of another would be no ratio.
        contended = reference.contended or result.contended
        if contended and reference.block_cpu_medians_ms and result.block_cpu_medians_ms:
            ratio = compare_pairs(reference.block_cpu_medians_ms, result.block_cpu_medians_ms)
        else:
            ratio = compare_pairs(reference.block_medians_ms, result.block_medians_ms)
        comparisons.append(Ratio(model, name, result.threads, *ratio))
    return tuple(comparisons)


def common_clock(first: LatencyResult, second: LatencyResult) -> bool:
    """Return whether two results can be compared:
    on a contended machine both have CPU time, or neither has.
    """
    contended = first.contended or second.contended
    return not contended or bool(first.block_cpu_medians_ms) == bool(second.block_cpu_medians_ms)


def parse_threads(threads: Iterable[int | str]) -> tuple[int, ...]:
    """Return the thread counts of an option as numbers;
    ``all`` is the number of cores that this process may use.

    Raises:
        UsageError: another text, or a number below 1 or above 64.
    """
    return tuple(
        usable_cores() if count == "all" else parse_count("threads", count) for count in threads
    )


def thread_counts(threads: Sequence[int]) -> list[int]:
    """Return the thread counts without repeats;
    raise UsageError if there is none, or one is below 1.
    """
    counts = list(dict.fromkeys(threads))
    if not counts or min(counts) < 1:
        raise UsageError(
            f"thread counts {list(threads)} are not valid",
            "give whole numbers from 1, such as 1,2",
        )
    return counts


def _run_agent(
    paths: Sequence[Path], threads: Sequence[int], effort: str, setup: InterpreterOptions
) -> AgentJson:
    # Twice the effort's longest time, and half a minute to load:
    # only a process that hangs takes longer.
    limit = 60 + len(paths) * len(threads) * (30 + 2 * effort_named(effort).max_seconds)
    options = ["--threads", ",".join(map(str, threads)), "--effort", effort, *setup.options()]
    subject = " and ".join(path.name for path in paths)
    files = [str(path.absolute()) for path in paths]
    return cast(
        "AgentJson", run_json([agent.__file__, *files, *options], limit, subject, setup.python)
    )


def _read_results(document: AgentJson) -> tuple[LatencyResult, ...]:
    return tuple(
        LatencyResult.of_series(series, document["load"]) for series in document["series"]
    )
