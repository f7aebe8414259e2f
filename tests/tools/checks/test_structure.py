"""What makes the package hard to read is counted, and a figure beyond its limit is a problem."""

from pathlib import Path

import grimp
import pytest
import yaml

from tests.tables import read_table, with_cases
from tools.checks.faces_contract import list_passing
from tools.checks.layers_contract import list_upward
from tools.checks.structure import LIMITS, measure, problems_of
from tools.checks.structure.source import Figure

CASE = read_table(__file__, "small_package.yaml")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in CASE["files"].items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def test_the_figures_of_a_small_project_are_those_that_were_counted_by_hand(project: Path) -> None:
    figures = measure(project)
    assert {name: figure.value for name, figure in figures.items()} == CASE["figures"]
    assert {name: list(figures[name].places) for name in CASE["places"]} == CASE["places"]


def test_each_figure_has_one_limit(project: Path) -> None:
    limits = yaml.safe_load(LIMITS.read_text(encoding="utf-8"))
    assert sorted([*limits["at most"], *limits["at least"]]) == sorted(measure(project))


@with_cases
def test_a_figure_past_a_limit_is_a_problem(most: dict[str, float], least: dict[str, float], named: list[str]) -> None:
    figures = {"skips": Figure(3, ["a.py:1"]), "comments": Figure(0.5)}
    lines = problems_of(figures, {"at most": most, "at least": least})
    assert len(lines) == len(named)
    assert all(name in line for name, line in zip(named, lines, strict=True))


@pytest.fixture
def graph() -> grimp.ImportGraph:
    graph = grimp.ImportGraph()
    for module in ("a", "a.low", "a.low._files", "a.low.agent", "a.high", "a.high._long"):
        graph.add_module(module)
    return graph


def test_the_contract_finds_an_import_past_a_face_and_leaves_public_modules(graph: grimp.ImportGraph) -> None:
    for imported in ("a.low", "a.low._files", "a.low.agent"):
        graph.add_import(importer="a.high._long", imported=imported)
    graph.add_import(importer="a.low", imported="a.low._files")
    assert list(list_passing(graph, "a")) == ["a.high._long imports a.low._files: import the name from a.low"]


def test_an_import_of_a_higher_room_is_named(graph: grimp.ImportGraph) -> None:
    graph.add_import(importer="a.high", imported="a.low")
    graph.add_import(importer="a.low._files", imported="a.high._long")
    assert list(list_upward(graph, ["a.high", "a.low | a.other"])) == [
        "a.low._files imports a.high._long, which is above it"
    ]
