import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import pytest

from advisor.core import StageError, UnsupportedRecipe, UsageError
from advisor.isolation import (
    CallLimits,
    ChildPool,
    Pause,
    PoolKind,
    TimedOut,
    Trainers,
    _process as process,
    _worker as calls,
    run_program,
)
from advisor.isolation._worker import IMPORTS, Worker
from advisor.measurement._host import busy_processes
from tests.builders import must_fail, write_file
from tests.isolation import functions
from tests.processes import PATIENCE_S, children_with, clock_from, has_ended, until
from tests.tables import read_table

pytestmark = pytest.mark.integration

HERE = "tests.isolation.functions"
THREADS = 8
CALLS = 40
"""Of each thread, from before the child is dead until after: one call of each seldom meets another's last step."""
ROUNDS = 2


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[ChildPool]:
    with ChildPool(tmp_path / "log.txt") as pool:
        yield pool


def test_no_module_in_this_folder_is_imported(pool: ChildPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {name.partition(".")[0] for name in (*sys.stdlib_module_names, *sys.modules)}
    for name in filter(str.isidentifier, names):  # MkDocs registers its hooks by their paths
        (tmp_path / f"{name}.py").write_text("raise ImportError('planted')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    assert pool.call("json:loads", "[1]") == [1]
    assert pool.call("numpy:prod", [2, 3]) == 6


def test_a_child_is_another_process_that_is_used_again_and_two_callers_get_two(pool: ChildPool, tmp_path: Path) -> None:
    first = pool.call(f"{HERE}:process")
    assert first != os.getpid()
    assert pool.call(f"{HERE}:add", 2, 3) == 5
    assert pool.call(f"{HERE}:process") == first
    (tmp_path / "met").mkdir()
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda _: pool.call(f"{HERE}:meet", tmp_path / "met", 2), range(2)))
        assert len(pool._all) == 2


@pytest.fixture
def on_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trainers]:
    """A pool whose children may see a GPU; what it tells is in ``told.txt``."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with Trainers(tmp_path / "log.txt", driver=tmp_path) as pool:
        pool.tell = (tmp_path / "told.txt").write_text
        yield pool


def test_a_training_whose_gpu_fails_is_repeated_on_the_cpu_and_said_once(on_a_gpu: Trainers, tmp_path: Path) -> None:
    assert on_a_gpu.call(f"{HERE}:trained") == "CPU"
    line = "training failed, perhaps because of the GPU, and is repeated on the CPU: "
    assert (tmp_path / "told.txt").read_text() == f"{line}ResourceExhaustedError: OOM when allocating"
    (tmp_path / "told.txt").unlink()
    assert on_a_gpu.call(f"{HERE}:trained") == "CPU"
    assert not (tmp_path / "told.txt").exists()


def test_a_crash_where_a_gpu_may_be_the_reason_is_repeated_on_the_cpu(on_a_gpu: Trainers, tmp_path: Path) -> None:
    assert on_a_gpu.call(f"{HERE}:trained", True) == "CPU"
    assert on_a_gpu.gpu_failed == "crashed with SIGSEGV"
    must_fail(StageError, "SIGSEGV", on_a_gpu.call, f"{HERE}:segfault")


def test_without_a_gpu_a_crash_and_any_other_error_end_the_call(tmp_path: Path) -> None:
    with Trainers(tmp_path / "log.txt", driver=tmp_path / "none") as pool:
        must_fail(StageError, "SIGSEGV", pool.call, f"{HERE}:segfault")
        must_fail(UnsupportedRecipe, "", pool.call, f"{HERE}:refuse")
        assert pool.gpu_failed == ""


def test_our_errors_keep_their_type_and_the_log_has_tracebacks_and_output(pool: ChildPool, tmp_path: Path) -> None:
    caught = must_fail(UnsupportedRecipe, "", pool.call, f"{HERE}:refuse")
    assert (caught.message, caught.hint) == ("not for this model", "try another")
    must_fail(StageError, "^ValueError: a plain error$", pool.call, f"{HERE}:fail")
    assert "with two lines" in (tmp_path / "log.txt").read_text()
    pool.call(f"{HERE}:talk")
    assert "native words" in (tmp_path / "log.txt").read_text()


def test_a_child_on_spare_time_runs_where_nothing_else_wants_a_core(tmp_path: Path) -> None:
    with PoolKind.SPARE.open(tmp_path / "log.txt") as spare:
        assert spare.call("os:sched_getscheduler", 0) == os.SCHED_IDLE


def test_a_crash_and_a_kill_are_named_and_the_next_call_works(pool: ChildPool) -> None:
    must_fail(StageError, "crashed with SIGSEGV", pool.call, f"{HERE}:segfault")
    assert pool.call(f"{HERE}:add", 1, 1) == 2
    must_fail(StageError, "SIGKILL", pool.call, f"{HERE}:kill_itself")


def test_a_call_that_hangs_or_with_what_it_started_eats_memory_is_stopped(pool: ChildPool) -> None:
    with pytest.raises(StageError, match="timed out: stopped after its limit of 1 s"):
        pool.call(f"{HERE}:hang", limits=CallLimits(seconds=1))
    with pytest.raises(StageError, match="of memory, more than its limit of"):
        pool.call(f"{HERE}:eat", 400_000_000, limits=CallLimits(memory_bytes=200_000_000))
    with pytest.raises(StageError, match="of memory, more than its limit of 200.0 MB"):
        pool.call(f"{HERE}:start_that_eats", 400_000_000, limits=CallLimits(memory_bytes=200_000_000, processes=1))


def started(list_file: Path) -> list[str]:
    """Return the ids of the programs that a call has started so far."""
    return list_file.read_text().splitlines() if list_file.exists() else []


def wait_for_end(list_file: Path) -> None:
    """Wait until no program of the list runs."""
    for pid in started(list_file):
        until(partial(has_ended, int(pid)))


def test_a_call_that_starts_too_many_processes_is_stopped_with_them(pool: ChildPool, tmp_path: Path) -> None:
    with pytest.raises(StageError, match="started 3 processes, more than its limit of 2"):
        pool.call(f"{HERE}:start", 3, tmp_path / "started", limits=CallLimits(processes=2))
    assert len(started(tmp_path / "started")) >= 2
    wait_for_end(tmp_path / "started")


@pytest.mark.parametrize("crash", [False, True], ids=["time-out", "crash"])
def test_what_a_call_started_ends_with_its_child(
    pool: ChildPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crash: bool
) -> None:
    # The limit begins when both programs run, however long a busy machine takes to start them.
    monkeypatch.setattr(calls, "time", clock_from(lambda: len(started(tmp_path / "started")) == 2))
    limits = CallLimits() if crash else CallLimits(seconds=0.5)
    with pytest.raises(StageError, match="SIGSEGV" if crash else "timed out"):
        pool.call(f"{HERE}:start", 2, tmp_path / "started", crash, limits=limits)
    assert len(started(tmp_path / "started")) == 2
    wait_for_end(tmp_path / "started")


def test_a_child_has_no_network_where_the_system_allows_that(pool: ChildPool) -> None:
    if pool.call("advisor.isolation._child:has_network"):
        pytest.skip("this system lets a child have a network")
    with socket.create_server(("127.0.0.1", 0)) as server:
        functions.connect(server.getsockname()[1])
        with pytest.raises(StageError, match="OSError: .*Network is unreachable"):
            pool.call(f"{HERE}:connect", server.getsockname()[1])


def test_a_confined_child_writes_below_its_folders_and_does_nothing_else(pool: ChildPool, tmp_path: Path) -> None:
    if not pool.call(f"{HERE}:confines_files"):
        pytest.skip("this system has no Landlock")
    (tmp_path / "own").mkdir()
    (tmp_path / "foreign").write_text("kept")
    with ChildPool(tmp_path / "log.txt", writes_below=tmp_path / "own") as confined:
        own = tmp_path / "own"
        confined.call(f"{HERE}:write", own / "new")
        confined.call("os:replace", own / "new", own / "other")
        (own / "below").mkdir()
        confined.call("os:replace", own / "other", own / "below" / "new")
        confined.call(f"{HERE}:write", Path(os.devnull))
        confined.call(f"{HERE}:write", Path(confined.call("tempfile:mkdtemp")) / "new")
        assert (own / "below" / "new").read_text() == "x"
        for function, *names in (
            *(("os:remove", "foreign"), ("os:mkdir", "folder")),
            *((f"{HERE}:write", "new"), (f"{HERE}:write", "foreign"), (f"{HERE}:run_program",)),
        ):
            must_fail(StageError, "PermissionError", confined.call, function, *(tmp_path / name for name in names))
    assert (tmp_path / "foreign").read_text() == "kept"
    assert left_behind(tmp_path) == ["foreign", "log.txt", "own"]


def test_a_child_keeps_its_user_and_its_files(pool: ChildPool, tmp_path: Path) -> None:
    assert pool.call("os:getuid") == os.getuid()
    (tmp_path / "own").write_text("x")
    (tmp_path / "own").chmod(0o600)
    pool.call("shutil:copyfile", tmp_path / "own", tmp_path / "copied")
    assert (tmp_path / "copied").stat().st_uid == os.getuid()


def left_behind(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("ending", ["process", "kill_itself", "segfault"])
def test_temporary_files_of_a_child_go_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with ChildPool(Path(os.devnull)) as pool:
        littered = Path(pool.call("tempfile:mkdtemp"))
        assert littered.parent.parent == tmp_path
        with suppress(StageError):
            pool.call(f"{HERE}:{ending}")
    assert left_behind(tmp_path) == []


def ran(folder: Path, *lines: str, **variables: str) -> str:
    """Run a script of these lines after the imports of pools, and return what it printed."""
    script = folder / "script.py"
    script.write_text("\n".join(("import os, signal", "from advisor.isolation import ChildPool", *lines)))
    environment = {**os.environ, **variables}
    return subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment, check=False).stdout


def test_a_child_whose_parent_was_killed_takes_its_temporary_files_with_it(tmp_path: Path) -> None:
    (tmp_path / "temporary").mkdir()
    kill = "os.kill(os.getpid(), signal.SIGKILL)"
    ran(tmp_path, "ChildPool().call('tempfile:mkdtemp')", kill, TMPDIR=str(tmp_path / "temporary"))
    until(lambda: left_behind(tmp_path / "temporary") == [])


def test_a_child_that_began_early_has_done_its_imports_and_serves_the_first_call(tmp_path: Path) -> None:
    with ChildPool(tmp_path / "log.txt", {IMPORTS: "no_such_module colorsys"}) as begun:
        begun.begin()
        child = begun._all[0]._process
        assert begun.call(f"{HERE}:imported", "colorsys")
        assert begun.call(f"{HERE}:process") == child.pid
    with ChildPool(tmp_path / "log.txt") as plain:
        assert not plain.call(f"{HERE}:imported", "colorsys")


def test_closing_ends_busy_children(pool: ChildPool) -> None:
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(pool.call, f"{HERE}:hang")
        until(lambda: pool._all and pool._all[0]._process)
        pool.close()
        must_fail(StageError, "", waiting.result, timeout=PATIENCE_S)


def test_a_script_without_main_guard_is_not_run_again_in_the_child(tmp_path: Path) -> None:
    told = ran(tmp_path, "print('ran')", "with ChildPool() as pool: print(pool.call('operator:add', 1, 2))")
    assert told.split() == ["ran", "3"]


def test_a_call_that_is_paused_goes_on_where_it_was(pool: ChildPool) -> None:
    pause = Pause()
    with ThreadPoolExecutor(1) as thread:
        pool.call(f"{HERE}:process")
        call = thread.submit(pool.call, f"{HERE}:add", 2, 3, pause=pause)
        assert call.result() == 5
        pause.pause()
        call = thread.submit(pool.call, f"{HERE}:add", 2, 3, pause=pause)
        (worker,) = pool._all
        child = psutil.Process(worker._process.pid)
        until(lambda: child.status() == psutil.STATUS_STOPPED)
        assert not call.done()
        pause.resume()
        assert call.result(timeout=PATIENCE_S) == 5


def test_a_paused_child_ends_with_its_parent(tmp_path: Path) -> None:
    script = write_file(tmp_path / "parent.py", read_table(__file__, "programs.yaml")["parent_of_a_paused_child"])
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    until(lambda: psutil.Process(child).status() == psutil.STATUS_STOPPED)
    parent.kill()
    parent.wait()
    until(partial(has_ended, child))


def test_a_pause_knows_how_long_its_call_stood_still() -> None:
    now = iter([10.0, 12.5, 20.0, 21.0])
    pause = Pause(lambda: next(now))
    pause.pause()
    pause.resume()
    assert pause.paused_s == 2.5
    pause.pause()
    assert pause.paused_s == 3.5


def test_cpu_seconds_of_a_call_are_its_own_on_a_busy_machine(pool: ChildPool, monkeypatch: pytest.MonkeyPatch) -> None:
    def start_and_stand_still(*settings: Any) -> Any:
        made = start(*settings)
        child = psutil.Process(made[0].pid)
        # Its imports are done, and it waits for the call.
        until(lambda: child.status() == psutil.STATUS_SLEEPING and sum(child.cpu_times()[:2]) > 0.02)
        return made

    imports, call, start = Pause(), Pause(), calls._start_child
    monkeypatch.setattr(calls, "_start_child", start_and_stand_still)
    assert pool.call(f"{HERE}:burn", 0.05, pause=imports) == pytest.approx(imports.cpu_s, abs=0.05)
    with busy_processes(2):
        pool.call(f"{HERE}:burn", 0.15, pause=call)
    assert call.cpu_s == pytest.approx(0.15, abs=0.05)


def test_an_answer_to_a_stopped_process_is_no_time_out(pool: ChildPool, monkeypatch: pytest.MonkeyPatch) -> None:
    def stand_still(_child: psutil.Process) -> int:
        until(lambda: pool._all[0]._connection.poll())
        return 0

    monkeypatch.setattr(calls, "_read_resident_bytes", stand_still)
    assert pool.call("time:sleep", 0.3, limits=CallLimits(seconds=0.25)) is None


@pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists(), reason="the system does not tell how long a process waits"
)
def test_a_call_that_waits_for_a_core_has_its_whole_limit(pool: ChildPool, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = pool.call(f"{HERE}:process")
    core, before_s = min(os.sched_getaffinity(pid)), calls._read_waited_s(pid)
    os.sched_setaffinity(pid, {core})
    with busy_processes(3):
        until(lambda: len(children_with("range(100_000)")) == 3)
        for beside in children_with("range(100_000)"):
            beside.cpu_affinity([core])
        pool.call(f"{HERE}:burn", 0.2)
    assert calls._read_waited_s(pid) - before_s > 0.2  # four processes share the processor
    waits = count(step=1000)  # it has waited for so much longer at each look
    monkeypatch.setattr(calls, "_read_waited_s", lambda _pid: next(waits))
    pool.call("time:sleep", 0.5, limits=CallLimits(seconds=0.1))


def stop_together(worker: Worker) -> None:
    """Stop a worker from many threads at once, and raise what one of them raised."""
    start = threading.Barrier(THREADS)

    def stop(_thread: int) -> None:
        start.wait()
        for _ in range(CALLS):
            worker.stop()

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(stop, range(THREADS)))


def test_many_threads_may_stop_one_worker(tmp_path: Path) -> None:
    """Threads take turns as often as they can, so that a race shows."""
    worker, before = Worker(tmp_path / "log", {}), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(ROUNDS):
            pid = worker.call("os:getpid", limits=CallLimits())
            stop_together(worker)
            assert not psutil.pid_exists(pid)
    finally:
        sys.setswitchinterval(before)


def test_a_call_whose_child_is_stopped_beside_it_fails_as_a_stage(tmp_path: Path) -> None:
    worker = Worker(tmp_path / "log", {})
    worker.call("os:getpid", limits=CallLimits())
    with ThreadPoolExecutor(1) as thread:
        call = thread.submit(worker.call, "time:sleep", 60, limits=CallLimits())
        while not call.done():
            worker.stop()
            time.sleep(0.01)
    worker.stop()
    caught = must_fail(StageError, "", call.result)
    assert caught.message == "killed by the system (SIGKILL), most likely because memory ran out"


def test_a_program_that_prints_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "OUTPUT_BYTES", 1_000_000)
    assert len(run_program(["head", "-c", "900000", "/dev/zero"], timeout_s=60).stdout) == 900_000
    for command in (["cat", "/dev/zero"], ["sh", "-c", "cat /dev/zero >&2"]):
        must_fail(StageError, "printed more than 1 MB", run_program, command, timeout_s=60)
    must_fail(TimedOut, "did not end within 0.5 s", run_program, ["sh", "-c", "exec >&- 2>&-; sleep 60"], timeout_s=0.5)


def test_a_program_that_is_not_installed_is_named() -> None:
    with pytest.raises(UsageError, match="'no-such-program' is not installed") as caught:
        run_program(["no-such-program"], timeout_s=1, hint="install it")
    assert caught.value.hint == "install it"
