"""Programs of a batch system that hang, lie or print no text: each call ends, with its answer or with a reason."""

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from advisor.core import StageError
from advisor.integrations import slurm
from advisor.integrations.slurm import SlurmExecutor, _programs as programs, read_settings
from advisor.isolation import Pause
from benchmarks.hostile_surfaces.damages import BROKEN
from benchmarks.hostile_surfaces.ground import Case, Ground
from tests.integrations.slurm import standin

SCRIPTS = {
    "hangs": "exec sleep 600",
    "hangs with its input": "exec cat /dev/zero > /dev/null",
    "prints no UTF-8": r"printf '\377\376\n\200'",
    "prints halves": r"printf 'JobID|State|NodeList\n1|'",
    "prints without end": "exec head -c 30000000 /dev/zero",
    "fails": "echo no >&2; exit 3",
    "fails without a word": "exit 7",
    "is killed": "kill -9 $$",
    "prints steering": r"printf '\033]0;x\007\033[31m\n'",
    "leaves a child": "sleep 600 & exit 0",
}
LIMIT_S = 8.0
PROGRAMS = ("sbatch", "sacct", "scancel", "srun")


def cases(ground: Ground) -> Iterator[Case]:
    """Yield each program with each behaviour and answer, in the place of Slurm's."""
    for program in PROGRAMS:
        for name, script in SCRIPTS.items():
            yield f"{program} {name}", partial(_run, ground, program, script)
    for number, text in enumerate(BROKEN):
        content = text[:2000].encode("utf-8", "surrogateescape")
        for program, head in (("sacct", b"JobID|State|NodeList\n1|"), ("sbatch", b"Submitted batch job ")):
            yield f"{program} {number}", partial(_run, ground, program, "exec cat {}/said", head + content)


def _run(ground: Ground, program: str, script: str, said: bytes = b"") -> Sequence[str]:
    folder = ground.fresh({"said": said})
    return ground.call(_ask, folder, program, script.format(folder) if said else script)


def _ask(folder: Path, program: str, script: str) -> None:
    """Ask a job for an answer while one program is replaced."""
    os.environ.update(standin.install(folder / "slurm"), ADVISOR_CACHE_DIR=str(folder / "cache"))
    (folder / "slurm" / "programs" / program).write_text(f"#!/bin/sh\n{script}\n")
    slurm.STATE_EVERY_S = {**slurm.STATE_EVERY_S, "slurm": 0.3}
    slurm.IDLE_S, programs.SUBMIT_S, programs.LOOK_S = 3.0, 1.0, 0.5
    (folder / "settings.yaml").write_text("jobs: {mem_gb: 4, timeout_min: 1}\n")
    executor, pause = SlurmExecutor(read_settings(str(folder / "settings.yaml")), 1), Pause()
    limit = threading.Timer(LIMIT_S, pause.end)  # as the time limit of a search: a job may wait for ever
    limit.start()
    try:
        assert executor.pools["light"].call("tests.integrations.slurm.jobs:process", pause=pause)
    except StageError as error:
        assert error.message  # noqa: PT017
    finally:
        limit.cancel()
        executor.close()
    sys.stderr.flush()
