"""The limits of the code's shape: a figure above one is a problem."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tools.checks import shape


def _package(root: Path) -> None:
    (root / "advisor" / "tasks").mkdir(parents=True)
    (root / "tests").mkdir()
    (root / "pyproject.toml").write_text('[project]\ndependencies = ["numpy", "scipy"]\n')
    (root / "advisor" / "one.py").write_text(
        "from advisor import two\n\n\nclass Card:\n    pass\n\n\nLATE, other = 1, 2\n"
    )
    (root / "advisor" / "two.py").write_text('TASK = "object-detection"\n\n\nclass Card:\n    pass\n')
    code = 'NAME = "object-detection"\n\n\ndef f(a, *, b):\n    a.x, a.y = [c for c in b], 1  # fmt: skip\n'
    (root / "advisor" / "tasks" / "three.py").write_text(code)
    (root / "advisor" / "__init__.py").write_text("")


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    _package(tmp_path)
    monkeypatch.setattr(shape, "ROOT", tmp_path)
    shape.figures.cache_clear()
    yield tmp_path
    shape.figures.cache_clear()


def test_the_figures_of_a_small_package(small: Path) -> None:
    found = shape.figures()
    assert found["assignments of attributes in a tuple"] == 1
    assert found["constants behind the first function or class"] == 1
    assert found["fmt: skip"] == 1
    assert found["comprehensions in 1,000 lines with text"] == 100
    assert found["longest import chain"] == 2
    assert found["most arguments of a function"] == 2
    assert found["public class names with two meanings"] == 1
    assert found["lines that name a task outside its folder"] == 1
    assert found["required dependencies"] == 2


def test_a_figure_above_its_limit_is_a_problem_and_is_named(
    small: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    limits = tmp_path / "shape.yaml"
    limits.write_text(yaml.safe_dump({**shape.figures(), "fmt: skip": 0}))
    monkeypatch.setattr(shape, "LIMITS", limits)
    (problem,) = shape.problems()
    assert "fmt: skip: 1, at most 0" in problem
