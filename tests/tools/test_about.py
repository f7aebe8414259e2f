"""What ``python -m tools.about`` says of modules, on this checkout."""

import pytest

from tests.places import PROJECT
from tests.tables import with_cases
from tools.about import describe_module, find_modules, read_tree

tree = pytest.fixture(scope="module")(read_tree)

# The whole tree is read, which takes six seconds.
pytestmark = pytest.mark.integration


def test_the_paths_and_constants_of_the_table_of_versions_exist_and_none_is_missing(tree):
    versions = tree.versions
    places = {path: (PROJECT / "advisor" / path, PROJECT / path) for row in versions.rows for path in row.paths}
    assert len(places) > 30
    assert [path for path in places if not any(place.exists() for place in places[path])] == []
    named = " ".join(row.version for row in versions.rows)
    assert [constant for constant in versions.list_constants() if constant not in named] == []


@with_cases
def test_callers_versions_and_tests_are_named(path, facts, tree):
    (name,) = find_modules(path, tree)
    text = " ".join(" ".join(describe_module(name, tree)).split())
    assert [fact for fact in facts if fact not in text] == []
    assert find_modules("core/_chosing.py", tree) == []
