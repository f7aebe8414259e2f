"""The files of a fleet in a bundle, run for real; a change of the fleet; verifying on a device."""

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

import advisor
from advisor.core import UsageError
from advisor.devices import ConnectionSettings, MeasurementJob
from advisor.integrations.fleet._verify import VerifiedFiles, VerifiedTier
from advisor.integrations.fleet.selector import TierSelector
from advisor.store import RunFolder
from tests.builders import must_fail, write_file
from tests.integrations.fleet.fleets import PHONES, fleet_run
from tests.makers.commands import Said, called
from tests.makers.searches import Searched
from tests.run_folders import write_run
from tests.tables import with_cases

pytestmark = pytest.mark.integration


def command(*arguments: str) -> Said:
    variables = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    return called(arguments, Path.cwd(), {**variables, "NO_COLOR": "1"})


def document(bundle: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((bundle / "tiers" / "tiers.json").read_text(encoding="utf-8"))
    return found


def runner(bundle: Path) -> Callable[[int, list[float]], list[float]]:
    """Return a function that runs a file of the bundle in LiteRT."""
    loaded: dict[int, Interpreter] = {}

    def run(tier: int, values: list[float]) -> list[float]:
        if tier not in loaded:
            loaded[tier] = Interpreter(model_path=str(bundle / "tiers" / f"tier{tier}.tflite"), num_threads=1)
            loaded[tier].allocate_tensors()
        given, first = loaded[tier].get_input_details()[0], loaded[tier].get_output_details()[0]
        loaded[tier].set_tensor(given["index"], np.array(values, np.float32).reshape(given["shape"]))
        loaded[tier].invoke()
        found: list[float] = loaded[tier].get_tensor(first["index"]).ravel().tolist()
        return found

    return run


def test_the_bundle_has_each_file_by_its_hash_and_the_notes(tiers: Path) -> None:
    found, folder = document(tiers), tiers / "tiers"
    for row in found["tiers"]:
        content = (folder / row["file"]).read_bytes()
        assert (hashlib.sha256(content).hexdigest(), len(content)) == (row["sha256"], row["bytes"])
    assert {path.name for path in folder.iterdir()} >= {"selector.py", "selector.js", "TierSelector.kt", "README.md"}
    assert "On-Demand Resources" in (folder / "README.md").read_text(encoding="utf-8")
    assert found["tiers"][0]["delivery"] == "with the app"
    assert "tiers/tiers.json" in (tiers / "SHA256SUMS").read_text(encoding="utf-8")


def test_rules_know_the_phones_of_the_fleet_and_no_others(tiers: Path) -> None:
    found = document(tiers)
    assert len(found["phones"]) == 3
    assert [each["speed"] for each in found["phones"]] == sorted(each["speed"] for each in found["phones"])
    for name in ("SM8650", "MT6789", "MSM8917"):
        assert TierSelector(found, {"names": [name]}).known_by == "name"


def test_the_selector_tests_times_and_remembers_real_files(tiers: Path) -> None:
    found, run = {**document(tiers), "window_ms": 10}, runner(tiers)

    def timed(tier: int) -> float:
        values = selector.inputs(tier, found["vectors"]["pixels"][0])
        run(tier, values)
        began = time.perf_counter()
        run(tier, values)
        return 1e3 * (time.perf_counter() - began)

    selector = TierSelector(found, {"cores": [{"part": "0xd05", "mhz": 2000}] * 8})
    assert selector.is_new
    before = selector.tier
    assert selector.self_test(run) == before, "LiteRT computes the expected values"
    assert selector.measure(timed) is not None
    again = TierSelector(found, {}, selector.state())
    assert not again.is_new
    assert (again.tier, again.file) == (selector.tier, selector.file)


def test_a_delegate_that_computes_something_else_is_found(tiers: Path) -> None:
    run = runner(tiers)
    selector = TierSelector(document(tiers), {"names": ["SM8650"]})
    assert selector.self_test(lambda tier, values: [0.5 * each for each in run(tier, values)]) is None
    assert selector.file is None


def test_useless_files_are_fewer(with_fleet: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisor.integrations.fleet._rules.REFERENCES", 1)
    offered = json.loads((with_fleet.path / "recommendation.json").read_text())["fleet"]["options"]
    made = advisor.export(with_fleet.path, tmp_path / "bundle", targets=["tiers"], web=False, tiers=3)
    assert len(document(made.path)["tiers"]) == len(offered) <= 3


def test_a_run_without_a_fleet_has_no_files_for_one(tmp_path: Path, with_images: Searched) -> None:
    with pytest.raises(UsageError, match="^tiers: the run has no fleet"):
        advisor.export(with_images.run.path, tmp_path / "bundle", targets=["tiers"], web=False)


def test_the_reports_show_the_fleet_of_a_run_that_has_one(tmp_path: Path) -> None:
    run = fleet_run(tmp_path)
    assert "Fleet: " in command("report", str(run.path)).out
    found = json.loads((run.path / "recommendation.json").read_text(encoding="utf-8"))["fleet"]
    assert len(found["options"]) >= 2
    assert set(found["options"][0]["devices"]) == {"Helio G99", "Snapdragon 8 Gen 3", "Snapdragon 425"}
    html = (run.path / "report.html").read_text(encoding="utf-8")
    assert 'id="fleet"' in html
    assert "<polyline" in html
    assert "**Fleet**" in (run.path / "report.md").read_text(encoding="utf-8")
    plain = write_run(tmp_path / "plain")
    assert command("report", str(plain.path)).code == 0
    assert json.loads((plain.path / "recommendation.json").read_text(encoding="utf-8"))["fleet"] is None
    assert 'id="fleet"' not in (plain.path / "report.html").read_text(encoding="utf-8")


def test_a_phone_more_changes_the_files_and_the_exit_code(tmp_path: Path) -> None:
    run, table = fleet_run(tmp_path, "soc,share\nHelio G99,100\n"), tmp_path / "fleet.csv"
    command("report", str(run.path))
    table.write_text("soc,share\nHelio G99,100\n", encoding="utf-8")
    same = command("reevaluate", str(run.path), "--fleet", str(table))
    assert same.code == 0, same.err
    assert "The files are the same." in same.out
    table.write_text(PHONES, encoding="utf-8")
    found = command("reevaluate", str(run.path), "--fleet", str(table), "--format", "json")
    assert found.code == 4
    change = json.loads(found.out)
    assert change["changed"]
    assert {each["name"] for each in change["phones"]} >= {"Snapdragon 8 Gen 3", "Snapdragon 425"}
    assert change["share"] >= 0.5
    assert json.loads((Path(change["run"]) / "recommendation.json").read_text())["fleet"]["options"]


@with_cases
def test_what_cannot_be_is_refused(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    run = str(fleet_run(tmp_path).path)
    found = command(*(run if each == "RUN" else each for each in arguments))
    assert found.code == 2
    assert message in found.err


def test_a_fleet_of_unknown_phones_stops_a_search_before_any_work(tmp_path: Path) -> None:
    table = write_file(tmp_path / "fleet.csv", "soc,share\nnobody's,1\n")
    found = command("search", "--fleet", str(table), "--budget", "50ms", "--out", str(tmp_path / "runs"))
    assert found.code == 2
    assert "no phone of it is known" in found.err
    assert not (tmp_path / "runs").exists()


def write_second_tier(folder: Path, changed: dict[str, Any]) -> None:
    """Write the first file of a fleet twice: it computes other values than the first tier expects."""
    (folder / "tier1.tflite").write_bytes((folder / "tier0.tflite").read_bytes())
    right = changed["tiers"][0]
    wrong = {**right, "expected": [[2.0] * len(row) for row in right["expected"]]}
    changed["tiers"] = [wrong, {**right, "file": "tier1.tflite"}]
    for row in (changed["vectors"], *changed["phones"]):
        row.update({name: row[name][:1] * 2 for name in ("stride", "tolerance", "ms", "sure_ms") if name in row})
    changed["measuring"] = changed["measuring"][:1] * 2
    (folder / "tiers.json").write_text(json.dumps(changed), encoding="utf-8")


def test_ssh_verifies_files(tiers: Path, own_ssh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisor.integrations.fleet._verify.MeasurementJob", partial(MeasurementJob, effort="load"))
    broken = Path(copytree(tiers, tmp_path / "broken"))
    write_second_tier(broken / "tiers", document(tiers))
    settings = ("--ssh", "device", "--python", sys.executable, "--json")
    said = command("verify", "raspberry-pi-4", str(broken), *settings)
    assert said.code == 3, said.err
    rows = json.loads(said.out)["tiers"]
    assert [row["passed"] for row in rows] == [False, True]
    assert all(row["milliseconds"] > 0 for row in rows)


def test_a_verification_is_good_if_the_chosen_file_meets_the_budget_and_none_computes_something_else() -> None:
    rows = (VerifiedTier("tier0.tflite", True, 5.0, True), VerifiedTier("tier1.tflite", True, 60.0, False))
    verified = VerifiedFiles("raspberry-pi-4", rows, 0, 50.0)
    assert verified.good
    assert verified.sentences[-1] == "On raspberry-pi-4 the selector chooses tier0.tflite."
    assert not replace(verified, tier=1).good
    assert not replace(verified, tier=None).good


def test_a_file_that_was_changed_is_not_verified(tiers: Path, tmp_path: Path) -> None:
    own = Path(copytree(tiers, tmp_path / "own"))
    (own / "tiers" / "tier0.tflite").write_bytes(b"another")
    with pytest.raises(UsageError, match=r"tier0\.tflite of .* was changed"):
        advisor.verify("raspberry-pi-4", own, connection=ConnectionSettings("ssh", "device"))
    must_fail(UsageError, "'raspberry-pi-4' has no connection", advisor.verify, "raspberry-pi-4", tiers)
