"""``kill -9`` of a search, of one of its children, or of both, and what is left once the search went on."""

import contextlib
import json
import random
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from advisor.core import Evaluation, Status
from advisor.core._choosing import front
from advisor.store import RunFolder, sha256_file
from tests.engine.test_interruptions import children, started
from tests.makers.searches import heads_of, linked_cache

VICTIMS = ("search", "child", "both")


@dataclass(frozen=True)
class Peace:
    """A search that nobody disturbed, how long it took, and its exit code."""

    run: RunFolder
    seconds: float
    code: int


@dataclass(frozen=True)
class Killed:
    """What a kill after a share of an undisturbed search's time did to a search that then went on.

    ``before`` were finished by then; of these the finished run has ``lost`` some, and ``twice`` others. The figures
    that do not depend on the clock, the front and the ``files`` are those of an undisturbed search, but for
    ``other_files``. Temporary files and child processes are ``left``.
    """

    victim: str
    share: float
    before: int
    lost: int
    twice: int
    same_figures: bool
    files: int
    other_files: int
    left: int
    same_front: bool
    code: int
    err: str


def options(photos: Path, recipes: Sequence[str] = ()) -> tuple[str, ...]:
    asked = (*heads_of(photos), "--threads", "1")
    return (*asked, "--compressions", ",".join(recipes), "--max-drop", "0.1pt") if recipes else asked


def undisturbed(photos: Path, folder: Path, recipes: Sequence[str] = ()) -> Peace:
    """Search with a cache that holds weights only."""
    start = time.monotonic()
    process = started(linked_cache(folder / "cache"), folder / "runs", *options(photos, recipes))
    _, err = process.communicate(timeout=900)
    assert process.returncode in (0, 3), err
    return Peace(RunFolder((folder / "runs" / "latest").resolve()), time.monotonic() - start, process.returncode)


def disturbed(moment: int, seed: int, peace: Peace, photos: Path, folder: Path, recipes: Sequence[str] = ()) -> Killed:
    """Search, kill at a random moment, go on, and look at what is left."""
    share, victim = random.Random(f"{seed}-{moment}").random(), VICTIMS[moment % len(VICTIMS)]
    cache, out, temporary = linked_cache(folder / "cache"), folder / "runs", folder / "tmp"
    temporary.mkdir()
    process = started(cache, out, *options(photos, recipes), temporary=temporary)
    kill(process, share * peace.seconds, victim)
    process.communicate(timeout=900)
    before = written(out)
    if (out / "latest").exists():
        resumed = started(cache, out, "--resume", str((out / "latest").resolve()), temporary=temporary)
    else:
        resumed = started(cache, out, *options(photos, recipes), temporary=temporary)
    _, err = resumed.communicate(timeout=900)
    run, after = RunFolder((out / "latest").resolve()), Counter(written(out))
    wanted, found = hashes(peace.run), hashes(run)
    return Killed(
        victim=victim,
        share=share,
        before=len(before),
        lost=sum(key not in after for key in before),
        twice=sum(count > 1 for count in after.values()),
        same_figures=figures(run.evaluations()) == figures(peace.run.evaluations()),
        files=len(wanted),
        other_files=sum(found.get(name) != value for name, value in wanted.items()),
        left=len(list(temporary.iterdir())) + len(using(temporary)),
        same_front=front_with(run.evaluations(), peace.run.evaluations()) == keys(front(peace.run.evaluations())),
        code=resumed.returncode,
        err=err,
    )


def kill(process: subprocess.Popen[str], after_s: float, victim: str) -> None:
    """Wait and kill; a child that is to die alone is waited for."""
    deadline = time.monotonic() + after_s
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    while victim == "child" and process.poll() is None and not children(process):
        time.sleep(0.01)
    if process.poll() is not None:
        return
    doomed = random.Random(after_s).sample(children(process), 1) if victim != "search" and children(process) else []
    for child in doomed:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    if victim != "child":
        process.kill()


def written(out: Path) -> Sequence[str]:
    """Return the configurations that were evaluated, once for every whole line; failures may be made good.

    A finalist has further lines: with its figures on the hold-out, of unknown things, and under capture conditions.
    """
    file = out / "latest" / "evaluations.jsonl"
    found = []
    for line in file.read_text().splitlines() if file.is_file() else ():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        evaluation = Evaluation.from_json(row)
        judged = (evaluation.holdout_accuracy, evaluation.unknown, evaluation.capture.holdout)
        found += [f"{evaluation.configuration.key} {judged.count(None)}"] if evaluation.status is Status.OK else []
    return found


def figures(evaluations: Sequence[Evaluation]) -> dict[str, tuple[object, ...]]:
    """Return all that does not depend on the clock."""
    return {
        e.configuration.key: (e.status, e.accuracy, e.drop, e.size, e.artefact_sha256, e.reason) for e in evaluations
    }


def hashes(run: RunFolder) -> dict[str, str]:
    """Return the hash of each artefact in a run folder, by its name.

    The file with a class for unknown things is left out: it is made of the pick, which timings choose among equals.
    """
    files = (file for file in run.artefacts.iterdir() if not file.name.endswith("-unknown.tflite"))
    return {file.name: sha256_file(file) for file in files}


def using(temporary: Path) -> list[psutil.Process]:
    """Return the processes whose temporary files lie in a folder."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("TMPDIR", "").startswith(str(temporary)):
                found.append(process)
    return found


def front_with(evaluations: Sequence[Evaluation], timed: Sequence[Evaluation]) -> list[str]:
    """Return the front under the latencies of another run: those of two runs differ by the clock's noise."""
    times = {e.configuration: e for e in timed}
    same = [
        replace(e, latency=times[e.configuration].latency, memory=times[e.configuration].memory) for e in evaluations
    ]
    return keys(front(same))


def keys(evaluations: Sequence[Evaluation]) -> list[str]:
    return sorted(evaluation.configuration.key for evaluation in evaluations)
