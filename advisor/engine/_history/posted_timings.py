"""Record timings that a page posted from the browser of some phone.

They become a new run beside the one whose files were timed, which stays as it is. The page is that
of ``integrations/browser/tryout``.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from advisor.core import Evaluation, Target, UsageError
from advisor.devices import Timing
from advisor.engine._history.loaded_run import LoadedRun
from advisor.engine._history.origins import Child, read_origin
from advisor.engine._pipeline.stages.other_runtimes import figures_of
from advisor.engine._targets.device_rows import move_to_target
from advisor.store import RunFolder, sha256_json


def record_timings(
    run: LoadedRun,
    device: str,
    runtime: str,
    timings: Sequence[tuple[Evaluation, str, Timing]],
    effort: str,
) -> tuple[RunFolder, tuple[Evaluation, ...]]:
    """Write a run with the timings of files on a device that no profile describes;
    return it with its evaluations.

    Each timing comes with the evaluation of its file and the unit that ran it, ``cpu`` or ``gpu``.
    ``device`` names the phone and its browser in words, ``runtime`` is that of the page with its
    version. The latencies belong to both alone, and never to the phone's own runtime. Nothing is
    compared with a prediction.

    Raises:
        UsageError: the run has changed since it was written, or there is no timing.
        StageError: a timing is damaged.
    """
    run.require_proof()
    if not timings:
        raise UsageError("there is no timing", "time the files again")
    evaluations = []
    for evaluation, accelerator, timing in timings:
        target = Target(device, runtime, accelerator, timing.threads)
        moved = move_to_target(evaluation, target)
        evaluations.append(figures_of(timing, effort, device).apply_to(moved))
    # Each measurement is another environment: nobody can tell what else the phone did.
    now = datetime.now(UTC).isoformat()
    medians_ms = [timing.median_ms for _evaluation, _unit, timing in timings]
    environment = sha256_json([device, now, medians_ms])
    child = Child(evaluations, device, environment, {"devices": {device: environment}})
    folder = child.write(run, read_origin(Path(run.folder.path)))
    return folder, folder.evaluations()
