"""The main job, end to end: real weights, real pictures, real conversions and measurements."""

import json
import re
from collections.abc import Iterable
from pathlib import Path

from advisor.core import Evaluation, Provenance, Status
from advisor.engine import resolve
from advisor.engine._space.recipes import DEFAULT_RECIPES, HEAVIER_RECIPES
from advisor.isolation import usable_cores
from advisor.store import Problem
from advisor.tflite import Metadata
from tests.builders import present
from tests.documents import problems
from tests.makers.searches import FORMS, SMALLEST, Searched
from tests.run_folders import lines


def _tried(searched: Searched) -> list[Evaluation]:
    return [e for e in searched.run.evaluations() if e.status is Status.OK]


def _files(evaluations: Iterable[Evaluation]) -> set[str]:
    return {str(e.artefact_sha256) for e in evaluations}


def _judged(evaluations: Iterable[Evaluation]) -> set[str]:
    """The artefacts that ran on the hold-out."""
    return _files(e for e in evaluations if e.holdout_accuracy)


def _captured(evaluations: Iterable[Evaluation]) -> set[str]:
    """The artefacts that were tried on images as phones take them."""
    return _files(e for e in evaluations if e.capture.holdout is not None)


def test_a_search_with_images_ends_with_a_pick_and_a_run_described_entry_by_entry(with_images: Searched) -> None:
    assert with_images.code == 0, with_images.err
    assert "Pick: " in with_images.out
    assert SMALLEST in with_images.out
    run = with_images.run
    assert Problem.list_in_run(run) == ()
    assert [found for line in lines(run) for found in problems("evaluation", json.loads(line))] == []
    assert problems("recommendation", json.loads((run.path / "recommendation.json").read_text())) == []
    request = resolve({}, run.path / "request.yaml")
    assert (request.question.limits.latency_ms, request.question.candidates) == (50, (SMALLEST,))


def test_every_recipe_is_evaluated_once_and_heavier_ones_only_where_int8_loses_much(with_images: Searched) -> None:
    evaluations = with_images.run.evaluations()
    by_recipe = {e.configuration.compression: e for e in evaluations}
    assert sorted(by_recipe) == sorted((*DEFAULT_RECIPES, *HEAVIER_RECIPES))
    judged = sum(e.holdout_accuracy is not None for e in evaluations)
    tried = sum(e.capture.holdout is not None for e in evaluations)
    told = sum(e.unknown is not None for e in evaluations)
    assert _captured(evaluations) <= _judged(evaluations)
    assert 1 <= len(_captured(evaluations)) <= 2  # the first two finalists
    assert len(_files(e for e in evaluations if e.unknown is not None)) == 1
    assert len(lines(with_images.run)) == len(evaluations) + judged + tried + told
    assert {by_recipe[name].status for name in DEFAULT_RECIPES} == {Status.OK}
    assert {by_recipe[name].status for name in HEAVIER_RECIPES} == {Status.SKIPPED}
    assert all("int8 keeps within --max-drop already" in by_recipe[name].reason for name in HEAVIER_RECIPES)


def test_every_figure_is_measured_or_estimated_and_has_its_source(with_images: Searched) -> None:
    for evaluation in _tried(with_images):
        for quantity in (evaluation.accuracy, evaluation.latency, evaluation.size, evaluation.drop):
            assert present(quantity).provenance is Provenance.MEASURED
            assert present(quantity).source
        assert present(evaluation.new_conditions).provenance is Provenance.ESTIMATED
    assert "In new conditions: about" in with_images.out


def test_the_manifest_says_versions_weights_and_memory(with_images: Searched) -> None:
    manifest = with_images.run.read_json("manifest.json")
    assert manifest["versions"]["ai-edge-litert"]
    assert len(manifest["weights"][SMALLEST]["sha256"]) == 64
    assert 0 < manifest["parent_peak_bytes"] < 1.5e9
    assert 0 < manifest["children_peak_bytes"] < 3e9


def test_the_run_folder_has_every_file_of_the_contract(with_images: Searched) -> None:
    names = {path.name for path in with_images.run.path.iterdir()}
    assert names >= {
        "request.yaml", "manifest.json", "evaluations.jsonl", "study.journal", "recommendation.json", "front.csv",
        "report.html", "report.md", "artifacts", "log.txt", "split.json", "dataset.json",
    }  # fmt: skip


def test_the_study_can_be_read_by_optuna(with_images: Searched) -> None:
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    storage = JournalStorage(JournalFileBackend(str(with_images.run.study_file)))
    study = optuna.load_study(study_name="advisor", storage=storage)
    complete = [trial for trial in study.trials if trial.state is optuna.trial.TrialState.COMPLETE]
    assert len(complete) == len(_tried(with_images))
    assert set(complete[0].constraints) == {"latency", "drop"}


def test_three_lines_of_python_do_the_same(by_metric: Searched) -> None:
    card, report = by_metric.out.split(maxsplit=1)
    assert card == SMALLEST
    assert Path(report.strip()).is_file()


def test_every_form_is_timed_on_one_thread_and_on_all_cores(without_images: Searched) -> None:
    found = [e.configuration for e in without_images.run.evaluations()]
    wanted = {(recipe, count) for recipe in FORMS.split(",") for count in (1, usable_cores())}
    assert {(each.compression, each.target.threads) for each in found} == wanted


def test_a_log_has_the_answer_so_far_and_nothing_but_lines_with_the_time(without_images: Searched) -> None:
    said = without_images.err.splitlines()
    assert all(re.match(r"\[[\d hmins]+\] ", line) for line in said)
    assert any(f"so far nothing meets the budget; closest is {SMALLEST} " in line for line in said)


def test_without_images_accuracy_is_published_or_estimated_with_imagenets_labels(without_images: Searched) -> None:
    by_recipe = {e.configuration.compression: e.accuracy for e in without_images.run.evaluations()}
    provenance = {recipe: accuracy.provenance for recipe, accuracy in by_recipe.items() if accuracy}
    assert provenance["float32"] is Provenance.PUBLISHED
    assert provenance["dynamic_int8"] is Provenance.ESTIMATED
    path = next(without_images.run.artefacts.glob("*float32*"))
    assert "espresso" in present(Metadata.read(path.read_bytes())).labels


def test_a_budget_that_nothing_meets_gives_the_closest_and_its_price(without_images: Searched) -> None:
    assert without_images.code == 3
    assert "Nothing meets the budget" in without_images.out
    recommendation = json.loads((without_images.run.path / "recommendation.json").read_text())
    assert recommendation["relaxations"]
    assert recommendation["relaxations"][0]["limit"] == "latency"
