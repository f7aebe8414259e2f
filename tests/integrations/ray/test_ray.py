"""Real nodes on this machine: one that does all there is to do, and two of which one is killed while it works."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from advisor.core import Status
from advisor.store import RunFolder
from tests.integrations.ray.nodes import ROOT, TwoNodes, environment
from tests.makers.searches import SMALLEST, command, linked_cache
from tests.processes import PATIENCE_S, has_ended, until
from tests.tables import read_table, with_cases

pytestmark = pytest.mark.timeout(900)

PROGRAMS = read_table(__file__, "programs.yaml")


def driven(*parts: str, folder: Path, workers: int, settings: dict[str, str]) -> subprocess.Popen[str]:
    program = "".join(PROGRAMS[part] for part in ("begin", *parts, "end"))
    command = [sys.executable, "-c", program, str(folder), str(workers)]
    return subprocess.Popen(command, env=settings, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def answers_of(driver: subprocess.Popen[str]) -> Iterator[str]:
    """Yield what the program says, and nothing that Ray says."""
    assert driver.stdout is not None
    return (row[2:].strip() for row in driver.stdout if row.startswith("> "))


@pytest.fixture(scope="module")
def result(starts_processes: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a program saw that ran jobs on a node which Ray started for it."""
    own = {name: value for name, value in environment().items() if name != "RAY_ADDRESS"}
    driver = driven("calls", folder=tmp_path_factory.mktemp("calls"), workers=1, settings=own)
    seen: dict[str, Any] = json.loads(next(answers_of(driver), "{}"))
    assert driver.wait(timeout=PATIENCE_S) == 0
    return seen


@with_cases
def test_jobs_and_measurements_run_on_a_cluster_of_their_own(result: dict[str, Any], fact: str, value: object) -> None:
    assert result[fact] == value


@pytest.mark.slow
def test_a_job_of_a_dead_node_runs_elsewhere_and_a_lost_device_is_named(two_nodes: TwoNodes, tmp_path: Path) -> None:
    driver = driven("lost", folder=tmp_path, workers=0, settings=two_nodes.environment)
    rows = answers_of(driver)
    assert next(rows, "") == "working"
    assert two_nodes.order("kill") == "killed"
    until(lambda: any(has_ended(int(file.name.split()[0])) for file in (tmp_path / "started").iterdir()))
    (tmp_path / "killed").touch()
    result = json.loads(next(rows, "{}"))
    assert driver.wait(timeout=PATIENCE_S) == 0
    assert (result["cores"], result["measured elsewhere"]) == (2, True)
    assert (result["begun"], result["ended"]) == (3, 2)
    assert result["host"] == "no node of the cluster offers device:host now"


@pytest.mark.slow
@pytest.mark.parametrize("two_nodes", ["measures", "client measures"], indirect=True)
def test_a_search_loses_nothing_with_a_node_but_time(
    two_nodes: TwoNodes, warm_cache: Path, photos: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    through_client = "client" in request.node.callspec.params["two_nodes"]
    executor = f"ray://{two_nodes.client}" if through_client else "ray"
    environment = {**two_nodes.environment, "ADVISOR_CACHE_DIR": str(linked_cache(tmp_path / "cache"))}
    options = f"--candidates {SMALLEST} --data {photos} --threads 1 --budget 50ms --training head".split()
    search = subprocess.Popen(
        command("--out", str(tmp_path / "runs"), "--executor", executor, *options),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    evaluations = tmp_path / "runs" / "latest" / "evaluations.jsonl"
    converted = tmp_path / "cache" / "artifacts"
    while search.poll() is None and not list(converted.glob("cut-2/*/model.tflite")):
        time.sleep(0.05)
    assert search.poll() is None, search.communicate()
    before = len(evaluations.read_text().splitlines()) if evaluations.is_file() else 0
    assert two_nodes.order("kill") == "killed"
    _, err = search.communicate(timeout=600)
    assert search.returncode == 0, err
    run = RunFolder((tmp_path / "runs" / "latest").resolve())
    assert before < 5
    assert [e.status for e in run.evaluations()] == [Status.OK] * 5
