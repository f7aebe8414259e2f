"""``advisor search --device A,B`` on the smallest card: real training, real compression, predicted latencies."""

import sys
from pathlib import Path

import pytest
import yaml

from advisor.core.evaluation import Status
from advisor.core.quantity import Provenance
from advisor.devices.profiles import shipped_profiles
from advisor.engine.history.loaded_run import LoadedRun, load_run
from tests.devices.conftest import own_ssh, ssh_server
from tests.engine.conftest import SMALLEST, Searched, heads_of, search, searched_once
from tests.requirements import skip_or_fail

__all__ = ["own_ssh", "ssh_server"]

DEVICES = ("raspberry-pi-4", "galaxy-s24")
SLOW = "mobilenet_v2_1.0_224"
"""On a Raspberry Pi 4 its float32 file was published with 62 ms."""


@pytest.fixture(scope="session")
def elsewhere(shared_folder: Path, warm_cache: Path, photos: Path) -> Searched:
    """A search for two devices of which none is at hand."""
    arguments = (*heads_of(photos), "--device", ",".join(DEVICES))
    return searched_once(shared_folder / "elsewhere", warm_cache, *arguments, "--compressions", "int8")


@pytest.fixture(scope="session")
def stored(elsewhere: Searched) -> LoadedRun:
    assert elsewhere.code == 0, elsewhere.err
    return load_run(elsewhere.run.path)


def test_each_file_is_made_once_and_predicted_on_each_device(stored: LoadedRun) -> None:
    ok = [row for row in stored.evaluations if row.status is Status.OK]
    assert {row.configuration.target.device for row in ok} == set(DEVICES)
    assert len({row.artefact_sha256 for row in ok}) == 2
    assert len(ok) == 4
    for row in ok:
        assert row.latency.provenance in (Provenance.PREDICTED, Provenance.PUBLISHED)
        assert row.latency.low is not None
        assert row.memory.provenance is Provenance.PREDICTED


def test_accuracy_is_measured_and_the_same_wherever_it_runs(stored: LoadedRun) -> None:
    by_file: dict[str, set[float]] = {}
    for row in stored.evaluations:
        assert row.accuracy.provenance is Provenance.MEASURED
        by_file.setdefault(row.artefact_sha256, set()).add(row.accuracy.value)
    assert all(len(values) == 1 for values in by_file.values())


def test_one_model_for_all_and_a_pick_a_device(elsewhere: Searched, stored: LoadedRun) -> None:
    assert stored.decision.feasible
    assert set(stored.by_device) == set(DEVICES)
    assert all(decision.feasible and decision.front for decision in stored.by_device.values())
    assert "Pick for all devices" in elsewhere.out
    assert "sure to meet 50.0 ms" in " ".join(elsewhere.out.split())


def test_what_the_file_holds_is_noted(stored: LoadedRun) -> None:
    forms = {row.configuration.compression: row.file_features.form for row in stored.evaluations if row.file_features}
    assert forms == {"float32": "float32", "int8": "int8"}


def test_the_answer_is_decided_again_for_another_budget_and_confidence(stored: LoadedRun) -> None:
    assert not load_run(stored.folder.path, {"budget": "1us"}).decision.feasible
    chances = [row.budget_probability for row in stored.evaluations]
    assert any(chance is not None for chance in chances)
    (strict, loose) = (load_run(stored.folder.path, {"confidence": share}) for share in ("99%", "50%"))
    for one, other in zip(strict.evaluations, loose.evaluations, strict=True):
        assert one.latency_p90.value > other.latency_p90.value


def test_a_device_that_the_pick_must_run_on_is_predicted_when_asked(stored: LoadedRun) -> None:
    found = load_run(stored.folder.path, {"must_run_on": ["coral-usb"]})
    assert found.decision.pick.configuration.compression == "int8"


def test_what_could_hardly_meet_the_budget_leaves_before_it_is_trained(
    tmp_path: Path, warm_cache: Path, photos: Path
) -> None:
    limits = ("--device", "raspberry-pi-4", "--budget", "30ms", "--compressions", "float32")
    images = ("--data", str(photos), "--training", "head")
    done = search(warm_cache, tmp_path / "runs", "--candidates", f"{SMALLEST},{SLOW}", *limits, *images)
    if f"{SLOW}:" in done.stderr:
        skip_or_fail(f"the weights of {SLOW} cannot be fetched")
    assert done.returncode == 0, done.stderr
    rows = {row.configuration.card: row for row in load_run(next((tmp_path / "runs").glob("2*"))).evaluations}
    assert rows[SMALLEST].status is Status.OK
    assert (rows[SLOW].status, rows[SLOW].stage) == (Status.SKIPPED, "predict")
    assert "under 1 % sure to meet 30.0 ms: not trained" in rows[SLOW].reason


def test_a_device_that_can_be_reached_is_measured_over_its_connection(
    tmp_path: Path, warm_cache: Path, own_ssh: None
) -> None:
    profile = yaml.safe_load((shipped_profiles() / "raspberry-pi-4.yaml").read_text(encoding="utf-8"))
    reached = {"ssh": "device", "python": sys.executable}
    (tmp_path / "devices").mkdir()
    place = tmp_path / "devices" / "our-board.yaml"
    place.write_text(yaml.safe_dump({**profile, "name": "our-board", "connection": reached}), encoding="utf-8")
    arguments = ("--device", "our-board", "--profiles", str(place.parent), "--candidates", SMALLEST)
    few = ("--compressions", "float32", "--budget", "500ms")
    done = search(warm_cache, tmp_path / "runs", *arguments, *few)
    assert done.returncode == 0, done.stderr
    (row,) = load_run(next((tmp_path / "runs").glob("2*"))).evaluations
    assert row.latency.provenance is Provenance.MEASURED, row.reason
    assert "ai-edge-litert" in row.latency.source
    assert row.configuration.target.device == "our-board"
