"""A small batch system in place of Slurm: ``sbatch``, ``srun``, ``sacct`` and ``scancel`` with real processes.

It does what submitit asks of Slurm: it starts a job in the background, tells its state, and kills it for its memory,
its time or on request. The folder ``$STANDIN`` has a file with the state of each job. No queue and no other machine.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

MINUTE_S = float(os.environ.get("STANDIN_MINUTE_S", "60"))
"""Seconds of a minute of a job's time limit."""

CLOCK_STARTS = os.environ.get("STANDIN_CLOCK_STARTS", "")
"""A folder: the time of a job begins when a file is put into it. If empty, it begins with the job."""

PYTHON = f'exec {sys.executable} {Path(__file__).resolve()} "${{0##*/}}" "$@"\n'

STATES = """echo "JobID|State|NodeList"
while [ $# -gt 0 ]; do
    if [ "$1" = -j ] && [ -f "$STANDIN/$2" ]; then echo "$2|$(cat "$STANDIN/$2")|here"; fi
    shift
done
"""

PROGRAMS = {"sbatch": PYTHON, "srun": PYTHON, "sacct": STATES, "scancel": 'touch "$STANDIN/$1.cancel"\n'}
"""Shell scripts by name; what is asked all the time does not start Python."""


def install(folder: Path) -> dict[str, str]:
    """Make the programs, and return the environment in which they are found."""
    programs, states = folder / "programs", folder / "states"
    programs.mkdir(parents=True)
    states.mkdir()
    for name, script in PROGRAMS.items():
        program = programs / name
        program.write_text(f"#!/bin/sh\n{script}")
        program.chmod(0o755)
    return {"PATH": f"{programs}:{os.environ['PATH']}", "STANDIN": str(states)}


def states(folder: Path) -> dict[str, str]:
    """Return the state of each job that was handed in, by its number."""
    return {file.name: file.read_text() for file in sorted((folder / "states").iterdir()) if file.name.isdigit()}


def main(program: str, arguments: list[str]) -> None:
    place = Path(os.environ["STANDIN"])
    if program == "sbatch":
        text = Path(arguments[0]).read_text()
        if "partition=closed" in text:
            sys.exit("sbatch: error: invalid partition specified: closed")
        number = str(time.time_ns() // 1000)  # never used before: submitit remembers the states of jobs
        # As Slurm does, keep the script: submitit moves its file as soon as this program has ended.
        script = place / f"{number}.sh"
        write(script, text)
        write(place / number, "PENDING")
        subprocess.Popen(
            [sys.executable, __file__, "job", number, str(script)], start_new_session=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "SLURM_JOB_ID": number},
        )  # fmt: skip
        print(f"Submitted batch job {number}")
    elif program == "job":
        try:
            run(place / arguments[0], Path(arguments[1]))
        except BaseException:
            # Otherwise a search would wait for this job for ever.
            write(place / arguments[0], "FAILED")
            raise
    elif program == "srun":
        options = {arguments[at]: arguments[at + 1] for at in range(len(arguments)) if arguments[at].startswith("--o")}
        log = options["--output"].replace("%j", os.environ["SLURM_JOB_ID"]).replace("%t", "0")
        command = arguments[next(at for at, word in enumerate(arguments) if word == sys.executable) :]
        environment = {**os.environ, "SLURM_NTASKS": "1", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
        environment |= {"SLURM_JOB_NUM_NODES": "1", "SLURM_NODEID": "0"}
        with Path(log).open("a") as file:
            sys.exit(subprocess.run(command, env=environment, stdout=file, stderr=file).returncode)


def run(state: Path, script: Path) -> None:
    text = script.read_text()
    amount, unit = re.findall(r"#SBATCH --mem=(\d+)(GB|)", text)[0]
    limit_s = MINUTE_S * int(re.findall(r"#SBATCH --time=(\d+)", text)[0])
    before = started()
    clock_start = None if CLOCK_STARTS else time.monotonic()
    write(state, "RUNNING")
    job = subprocess.Popen(["bash", str(script)], start_new_session=True)
    ended = ""
    while job.poll() is None and not ended:
        # On a busy machine one turn of this loop can take longer than the limit: the clock must not run before.
        if clock_start is None and started() != before:
            clock_start = time.monotonic()
        if state.with_name(f"{state.name}.cancel").exists():
            ended = "CANCELLED by 0"
        elif sum(map(resident, family(job.pid))) > int(amount) * (10**9 if unit else 10**6):
            ended = "OUT_OF_MEMORY"
        elif clock_start is not None and time.monotonic() - clock_start > limit_s:
            ended = "TIMEOUT"
        time.sleep(0.05)
    for process in family(job.pid) if ended else ():
        with contextlib.suppress(psutil.Error):
            process.send_signal(signal.SIGKILL)
    write(state, ended or ("COMPLETED" if job.wait() == 0 else "FAILED"))


def started() -> list[Path]:
    """Return the files in the folder that starts the clock."""
    return sorted(Path(CLOCK_STARTS).iterdir()) if CLOCK_STARTS else []


def family(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        return [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    return []


def resident(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.Error):
        return int(process.memory_info().rss)
    return 0


def write(file: Path, text: str) -> None:
    unfinished = file.with_name(f"{file.name}.new")
    unfinished.write_text(text)
    unfinished.replace(file)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
