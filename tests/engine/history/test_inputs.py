"""A run finds the files of its question from every folder, and has its own copy of a catalogue that is gone."""

import shutil
from pathlib import Path

import pytest
import yaml

from advisor.catalog import Catalogue
from advisor.catalog._catalogue import list_shipped_files
from advisor.engine import LoadedRun, resolve
from advisor.engine._history.changes import find_card_changes
from advisor.engine._history.manifest import card_hash
from advisor.engine._history.run_inputs import CATALOGS, images_folder, keep_inputs, locate_paths
from advisor.engine._space.candidates import choose_cards
from advisor.engine._targets.target_devices import TargetDevices
from advisor.store import RunFolder

HASH = "a" * 64

pytestmark = pytest.mark.usefixtures("own_folders")


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a catalogue of one own card, whose weights lie beside it; the current folder."""
    folder = tmp_path / "started"
    folder.mkdir()
    source = next(file for file in list_shipped_files() if file.name == "squeezenet.yaml")
    values = yaml.safe_load(source.read_text())
    card = {**values["cards"][0], "name": "own_net"}
    own = {"kind": "file", "format": "keras_h5", "port": "keras", "file": {"path": "own.h5", "sha256": HASH}}
    (folder / "team.yaml").write_text(yaml.safe_dump({**values, "cards": [{**card, "weights": [own]}]}))
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def run(started: Path) -> RunFolder:
    """A run over the own card."""
    request = resolve({"catalog": ["team.yaml"], "candidates": ["own_net"], "profiles": ["profiles"], "out": "runs"})
    run = RunFolder.create(started / "runs", "run")
    keep_inputs(run, request.question)
    run.write_request(request.written)
    cards = choose_cards(request.question, Catalogue.load(request.question.catalog), TargetDevices(host=True))
    hashes = {card.name: card_hash(card) for card in cards}
    run.write_json("manifest.json", {"cards": hashes})
    return run


def test_the_images_are_found_from_every_folder_and_as_many_read_again_as_were_drawn(
    run: RunFolder, started: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (started / "photos").mkdir()
    assert LoadedRun.load(run.path).question.most_images is None
    run.write_json("dataset.json", {"folder": "photos", "most_images": 700})
    assert LoadedRun.load(run.path).question.most_images == 700
    run.write_json("dataset.json", {"folder": "photos"})
    assert LoadedRun.load(run.path).question.most_images == 0
    monkeypatch.chdir(tmp_path)
    assert images_folder(run) == started / "photos"
    run.write_json("dataset.json", {"folder": "gone"})
    assert images_folder(run) == Path("gone")


def test_paths_count_from_the_folder_that_the_run_was_started_in(
    run: RunFolder, started: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (started / "profiles").mkdir()
    (tmp_path / "team.yaml").write_text("not the catalogue of the run")
    assert LoadedRun.load(run.path).question.catalog == (Path("team.yaml"),), "in the folder itself, as they were typed"
    monkeypatch.chdir(tmp_path)
    question = LoadedRun.load(run.path).question
    assert question.catalog == (started / "team.yaml",)
    assert question.profiles == (started / "profiles",)
    assert find_card_changes(LoadedRun.load(run.path)).remark == ""


def test_a_changed_catalogue_is_seen_from_another_folder(
    run: RunFolder, started: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (started / "team.yaml").read_text()
    (started / "team.yaml").write_text(text.replace("name: own_net", "name: own_net\n  note: changed"))
    monkeypatch.chdir(tmp_path)
    changes = find_card_changes(LoadedRun.load(run.path))
    assert (changes.remark, changes.hashes.keys()) == ("", {"own_net"})
    assert changes.hashes["own_net"] != run.read_json("manifest.json")["cards"]["own_net"]


def test_a_catalogue_that_is_gone_is_taken_from_the_run(
    run: RunFolder, started: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = tmp_path / "elsewhere" / "run"
    shutil.copytree(run.path, moved)
    shutil.rmtree(started)
    monkeypatch.chdir(tmp_path)
    changes = find_card_changes(LoadedRun.load(moved))
    assert LoadedRun.load(moved).question.catalog == (moved / CATALOGS / "0.yaml",)
    assert dict(changes.hashes) == RunFolder.open(moved).read_json("manifest.json")["cards"]
    assert (changes.names, changes.remark) == ((), "")


def test_a_copy_outside_of_the_run_is_not_taken(run: RunFolder, started: Path) -> None:
    (started / "team.yaml").rename(started / "secret.yaml")
    run.write_json("inputs.json", {"folder": str(started), "catalogs": {"team.yaml": "../../secret.yaml"}})
    request = resolve({"catalog": ["team.yaml"]})
    assert locate_paths(request, run).question.catalog == (Path("team.yaml"),)


def test_the_copy_of_a_catalogue_has_no_password_and_the_same_cards(started: Path) -> None:
    values = yaml.safe_load((started / "team.yaml").read_text())
    own = {**values["cards"][0]["weights"][0], "kind": "url", "url": "https://me:pw@host/own.h5?token=abc"}
    (started / "team.yaml").write_text(yaml.safe_dump({**values, "cards": [{**values["cards"][0], "weights": [own]}]}))
    run = RunFolder.create(started / "runs", "run")
    keep_inputs(run, resolve({"catalog": ["team.yaml"]}).question)
    copy = run.path / CATALOGS / "0.yaml"
    assert "pw" not in copy.read_text()
    assert "abc" not in copy.read_text()
    one, other = (Catalogue.load([path])["own_net"] for path in (started / "team.yaml", copy))
    assert one.weights[0].url != other.weights[0].url == "https://host/own.h5"
    assert card_hash(one) == card_hash(other)
