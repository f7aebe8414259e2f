"""The host, a real SSH server on loopback, and what a device may answer."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from advisor.core import StageError, UsageError
from advisor.devices import HostConnection, MeasurementJob, SshConnection, timings_of_agent
from advisor.devices._connections.ssh import _hash_content, _name_files
from advisor.isolation import sweep_folders
from advisor.store import sha256_file
from tests.builders import must_fail, write_file
from tests.devices.requirements import require_onnx
from tests.makers.phones import SshServer, client_of
from tests.tables import read_table, with_cases

BRIEF = "load"
LOAD = {"loadavg": 0.5}
DOCUMENT = {"runtime": "ai-edge-litert", "runtime_version": "2", "memory": {"private_bytes": 9}, "load": LOAD}
BLOCK = {"wall_ns": [5], "cpu_ns": [5], "waited_ns": 0, "elapsed_ns": 5}
SERIES = {"model": "a", "threads": 1, "first_ns": 1, "load_ns": 1, "blocks": [BLOCK]}
CACHE = Path.home() / ".cache" / "advisor-agent"


def ssh(server: SshServer, **changes: object) -> SshConnection:
    connection = SshConnection("device", python=sys.executable, program=server.client)
    return replace(connection, **changes)  # type: ignore[arg-type]


def own_job(model: Path, folder: Path) -> MeasurementJob:
    """Return a job whose folder on the device is no other test's, as tests run side by side."""
    own = folder / "own.tflite"
    own.write_bytes(model.read_bytes() + bytes(folder))
    return MeasurementJob((own,), (1,), BRIEF)


def folder_of(job: MeasurementJob) -> Path:
    files = {name: (path, sha256_file(path)) for name, path in _name_files(job.models).items()}
    return CACHE / _hash_content(files, ["agent.py", *job.agent_arguments(list(files)[1:])])


@pytest.mark.integration
def test_the_host_measures_with_the_agent_whose_document_is_kept_whole(agent: Path, model: Path) -> None:
    first, second = HostConnection(agent).measure(MeasurementJob((model,), (1, 2), BRIEF))
    assert (first.model, first.threads, second.threads) == (model, 1, 2)
    assert first.median_ms == pytest.approx(1e-6 * median(first.details["blocks"][0]["wall_ns"]))
    assert (first.own_ms, first.contention) == (first.cpu_ms, "")
    assert (second.own_ms, second.cpu_ms) == (second.median_ms, None)
    assert first.runtime.startswith(("ai-edge-litert==", "tflite-runtime=="))
    assert json.loads(json.dumps(first.details)) == first.details


@pytest.mark.integration
@with_cases
def test_an_agent_that_answers_rubbish_is_a_failed_measurement(tmp_path: Path, model: Path, script: str) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(script)
    must_fail(StageError, "no measurements", HostConnection(agent).measure, MeasurementJob((model,), effort=BRIEF))


@pytest.mark.integration
def test_an_agent_that_hangs_is_ended(tmp_path: Path, model: Path) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text("import time; time.sleep(60)")
    with pytest.raises(StageError, match=r"did not end within 0.5 s"):
        HostConnection(agent).measure(MeasurementJob((model,), timeout_s=0.5))


@with_cases
def test_a_document_without_sense_is_a_failed_measurement(series: object, changes: list[dict[str, Any]]) -> None:
    document = DOCUMENT | {"series": [SERIES | changed for changed in changes] or series}
    must_fail(StageError, "invalid response from the device", timings_of_agent, document, [Path("a.tflite")], ["a"])


def test_a_job_without_models_or_threads_is_refused(agent: Path, model: Path, tmp_path: Path) -> None:
    for job in (
        MeasurementJob(()),
        MeasurementJob((model,), threads=()),
        MeasurementJob((model,), threads=(0,)),
        MeasurementJob((tmp_path / "none.tflite",)),
    ):
        must_fail(UsageError, "", HostConnection(agent).measure, job)


def test_ssh_measures_over_one_connection_and_cleans_up(ssh_server: SshServer, model: Path, tmp_path: Path) -> None:
    log, job = ssh_server.folder / "log", own_job(model, tmp_path)
    before = log.read_text().count("Accepted publickey")
    (timing,) = ssh(ssh_server).measure(job)
    assert log.read_text().count("Accepted publickey") == before + 1
    assert timing.model == job.models[0]
    assert timing.median_ms > 0
    assert CACHE.is_dir()
    assert not folder_of(job).exists()


@pytest.mark.integration
def test_ssh_measures_the_onnx_export_in_onnx_runtime(ssh_server: SshServer, model: Path) -> None:
    require_onnx()
    (found,) = ssh(ssh_server).measure(MeasurementJob((model,), (1,), "load", runtime="onnxruntime"))
    assert found.model == model
    assert found.runtime.startswith("onnxruntime==")


def test_hostile_names_reach_no_shell(ssh_server: SshServer, model: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    hostile = tmp_path / f"-oProxyCommand=touch $(touch {trap.name}); `touch t` & 'x'.tflite"
    hostile.write_bytes(model.read_bytes())
    (timing,) = ssh(ssh_server).measure(MeasurementJob((hostile,), effort=BRIEF))
    assert timing.model == hostile
    with pytest.raises(StageError):
        ssh(ssh_server).measure(MeasurementJob((model,), effort=f"0; touch {trap}; $(touch {trap}) `touch {trap}`"))
    with pytest.raises(StageError):
        ssh(ssh_server, python=f"python3; touch {trap};").measure(MeasurementJob((model,), effort=BRIEF))
    assert not trap.exists()


@with_cases
def test_what_is_no_host_is_refused(destination: str) -> None:
    must_fail(UsageError, "is not a valid host", SshConnection, destination)


@with_cases
def test_a_host_that_is_not_trusted_or_does_not_let_in_or_answer_is_told(
    ssh_server: SshServer, model: Path, tmp_path: Path, before: str, after: str, usage: bool, words: str
) -> None:
    other = (ssh_server.folder / "user.pub").read_text().split()[:2]
    (tmp_path / "wrong").write_text(f"[127.0.0.1]:{ssh_server.port} {' '.join(other)}\n")
    old, new = (text.format(server=ssh_server, folder=tmp_path) for text in (before, after))
    config = write_file(tmp_path / "config", ssh_server.config.read_text().replace(old, new))
    with pytest.raises(UsageError if usage else StageError) as told:
        ssh(ssh_server, program=client_of(config), retries=0).measure(MeasurementJob((model,), effort=BRIEF))
    assert words in f"{told.value.message}: {told.value.hint}"


def test_a_lost_connection_is_taken_up_again(ssh_server: SshServer, model: Path, tmp_path: Path) -> None:
    """A client that drops the first transfers, then is the real one: files that arrived are not sent again."""
    calls = tmp_path / "calls"
    client = tmp_path / "ssh"
    client.write_text(
        f'#!/bin/sh\necho "$*" >> {calls}\n'
        f'case "$*" in *model0.tflite.part*) if [ $(grep -c model0.tflite.part {calls}) -eq 1 ]; then\n'
        f'echo "Connection reset by peer" >&2; exit 255; fi;; esac\nexec {ssh_server.client} "$@"\n'
    )
    client.chmod(0o700)
    (timing,) = ssh(ssh_server, program=str(client)).measure(MeasurementJob((model,), effort=BRIEF))
    assert timing.median_ms > 0
    sent = calls.read_text()
    assert sent.count("model0.tflite.part &&") == 2
    assert sent.count("agent.py.part &&") == 1


@pytest.mark.integration
def test_a_killed_measurement_leaves_no_socket_that_the_next_command_does_not_delete(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client kills the process that started it."""
    client, temporary = tmp_path / "ssh", tmp_path / "tmp"
    client.write_text("#!/bin/sh\nkill -9 $PPID\n")
    client.chmod(0o700)
    temporary.mkdir()
    measure = read_table(__file__, "texts.yaml")["measure_over_ssh"]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    done = subprocess.run([sys.executable, "-c", measure, client, model], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(list(temporary.iterdir())) == 1
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    sweep_folders()
    assert list(temporary.iterdir()) == []


def test_a_device_that_is_full_is_a_failed_measurement(ssh_server: SshServer, model: Path, tmp_path: Path) -> None:
    """A client whose remote shell may write files of four kilobytes at most: nothing whole arrives, nothing stays."""
    client = tmp_path / "ssh"
    client.write_text(
        "#!/bin/bash\nlast=${!#}\n"
        'case "$last" in "cat > "*) set -- "${@:1:$#-1}" "ulimit -f 4; $last";; esac\n'
        f'exec {ssh_server.client} "$@"\n'
    )
    client.chmod(0o700)
    job = own_job(model, tmp_path)
    must_fail(StageError, r"device: cannot store agent\.py", ssh(ssh_server, program=str(client)).measure, job)
    assert not folder_of(job).exists()


def test_a_device_without_the_runtime_says_so(ssh_server: SshServer, model: Path, tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o700)
    with pytest.raises(StageError, match=r"numpy|litert"):
        ssh(ssh_server, python=str(bare)).measure(MeasurementJob((model,), effort=BRIEF))
