"""TensorFlow and Keras in a child process come without what no job needs from their imports."""

from pathlib import Path

import pytest

from advisor.isolation import ChildPool
from advisor.isolation.child import OPTIONAL

pytestmark = pytest.mark.integration

HERE = "tests.isolation.functions"


def test_keras_comes_without_optional_packages_that_can_be_imported_later(tmp_path: Path) -> None:
    with ChildPool(tmp_path / "log") as pool:
        assert pool.call(f"{HERE}:loaded_with_keras", OPTIONAL) == set()
        assert pool.call(f"{HERE}:import_name", "pandas") == "pandas"
        assert pool.call("gc:get_freeze_count") > 100_000
        assert pool.call("gc:isenabled")
