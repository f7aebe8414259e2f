"""The small parts of the benchmarks: printed figures, cost tables, sources of devices, and a slower machine."""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.core import TrainingName
from advisor.devices import DeviceProfile, DeviceTarget, Measurement
from benchmarks import speed, tables
from benchmarks.accuracy_search import HEADER, NAME
from benchmarks.accuracy_summary import of_claims, of_search, of_seeds
from benchmarks.cost_table import CORES, PROBLEMS, Purse, Row, read
from benchmarks.speed import Speed, limited
from tools.checks.profile_rows import problems_of

GAINS = {TrainingName.HEAD_SUBSET: -3.0, TrainingName.HEAD: 0.0, TrainingName.FINETUNE_TOP: 2.0}

TRAINING_S = {TrainingName.HEAD_SUBSET: 1.0, TrainingName.HEAD: 2.0, TrainingName.FINETUNE_TOP: 100.0}

BASES = {"mobilenet_v2_1.0_224": 88.0, "efficientnet_lite0_224": 90.0}
CARD = "mobilenet_v2_1.0_224"


def made(base: str, size: int, training: str, recipe: str, threads: int) -> Row:
    """Return one row: larger inputs are more accurate and slower, int8 is faster and a point less accurate."""
    light = recipe == "int8"
    return Row(
        card=base if size == 224 else f"{base}_at_{size}",
        base=base,
        size=size,
        params=3_500_000,
        macs=300_000_000,
        training=training,
        recipe=recipe,
        threads=threads,
        accuracy=BASES[base] + GAINS[training] + (size - 224) / 48 - light,
        latency_ms=size / 64 / threads / (1 + light),
        bytes=3_500_000 * (1 if light else 4) + size,
        shared_s=4.0 if training == TrainingName.HEAD_SUBSET else 10.0,
        training_s=TRAINING_S[training],
        own_s=2.0,
        timing_s=3.0,
    )


def row(name: str, claimed: str, scored: str) -> tuple[str, ...]:
    return (name, "net", "head", "int8", "80.0 (70.0-90.0)", claimed, scored, "", "", "21.0", "6.0", "12.0")


def test_figures_are_those_of_the_shipped_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    rows = [row("grocery", "70.0 (68.0-72.0)", "70.0"), row("trashnet, seed 0", "90.0", "90.0")]
    tables.keep(NAME, "title", HEADER, [*rows, row("trashnet, seed 1", "92.0", "92.0")])
    assert of_search("grocery") == "70.0 (net head int8; 15 CPU min after features)"
    assert of_seeds() == "91.0 ± 1.4 (2 seeds, 21 CPU min)"
    assert of_claims() == "equal (3 searches)"


def _seconds(*rows: Row) -> float:
    purse = Purse()
    for row in rows:
        purse.pay(row)
    return purse.spent


def test_cores_share_all_but_timings_and_the_float_form_is_paid_once() -> None:
    assert _seconds(made(CARD, 224, TrainingName.HEAD, "float32", 1)) == (10 + 2 + 2) / CORES + 3
    light, floating = made(CARD, 224, TrainingName.HEAD, "int8", 1), made(CARD, 224, TrainingName.HEAD, "float32", 1)
    assert _seconds(light) == (10 + 2 + 2 + 2) / CORES + 3
    assert _seconds(light, floating) == _seconds(light) + 3


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_table_that_is_kept_has_the_problem_whole(name: str) -> None:
    problem = read(name)
    assert len(problem.rows) >= 72
    assert set(problem.rows.values()) <= {problem.row(each) for each in problem.plan.configurations()}
    assert all(row.timing_s > 0 for row in problem.rows.values())


def test_the_check_names_what_a_row_lacks() -> None:
    good = Measurement(
        "npu", "u", "int8", 2.0, source_repo="repo", input_side=224, graph="AI Hub 0.46", runtime_version="2.42.0"
    )
    target = DeviceTarget("npu", "qnn", "npu")

    def found(figure: Measurement) -> list[str]:
        profile = DeviceProfile("d", "D", "phone", "S", (target,), "npu", measurements=(figure,))
        return list(problems_of([profile], {"u": 224}))

    assert found(good) == []
    assert found(replace(good, input_side=192)) == ["d.csv: npu u: input_side 192 is not that of the network, 224"]
    assert found(replace(good, input_side=None, flag="unstated_input")) == []
    assert found(replace(good, graph="", runtime_version="")) == [
        "d.csv: npu u: the row has no graph",
        "d.csv: npu u: the row has no runtime_version",
    ]


def spin(seconds: float) -> float:
    """Compute for some seconds by the clock, and return the CPU seconds that the process got."""
    until, began = time.monotonic() + seconds, time.process_time()
    while time.monotonic() < until:
        pass
    return time.process_time() - began


def may_set_quota() -> bool:
    root = speed.GROUPS if (speed.GROUPS / "cgroup.controllers").is_file() else speed.GROUPS / "cpu"
    return os.geteuid() == 0 and os.access(root, os.W_OK)


@pytest.mark.skipif(not may_set_quota(), reason="control groups of this machine cannot be written")
def test_a_quota_gives_its_share_of_the_cpu_time_and_ends_with_the_block() -> None:
    with limited(Speed(0.25, cores=1)):
        assert os.sched_getaffinity(0) == {min(os.sched_getaffinity(0))}
        assert spin(0.6) < 0.4
    assert not list(speed.GROUPS.glob(f"**/advisor-speed-{os.getpid()}"))
