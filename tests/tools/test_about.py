"""What ``python -m tools.about`` says of modules, on this checkout."""

import sys

import pytest

from tests.places import PROJECT
from tools.about import describe_module, find_modules, main, read_tree

PACKAGE = PROJECT / "advisor"


@pytest.fixture(scope="module")
def tree():
    return read_tree()


def describe(path, tree):
    (name,) = find_modules(path, tree.modules)
    return " ".join(" ".join(describe_module(name, tree)).split())


def test_the_paths_of_the_table_of_versions_exist(tree):
    paths = {path for row in tree.rows for path in row.paths}
    assert len(paths) > 30
    assert [path for path in sorted(paths) if not (PACKAGE / path).exists() and not (PROJECT / path).exists()] == []


@pytest.mark.parametrize(
    ("path", "facts"),
    [
        ("training/_head/folds.py", ("training/_head/__init__.py:", "raise HEAD_VERSION", "tests/training/")),
        ("catalog/_convert.py", ("engine/_targets/card_front.py: CONVERT_VERSION, convert", "raise CONVERT_VERSION")),
        ("integrations/serve/__init__.py", ("used by pyproject.toml: COMMAND", "raise none")),
        ("tflite/_values.py", ("raise if results of those that use it change: - ",)),
    ],
)
def test_callers_versions_and_tests_are_named(path, facts, tree):
    text = describe(path, tree)
    assert [fact for fact in facts if fact not in text] == []


def test_a_path_that_is_not_in_the_package_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["about", "core/_chosing.py"])
    with pytest.raises(SystemExit):
        main()
    assert "'core/_chosing.py' is no module or folder" in capsys.readouterr().err
