"""What ``import advisor`` offers."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("first", ["", "import advisor.engine.run, advisor.measurement.latency.timing; "])
def test_every_public_name_is_there_whatever_was_imported_before(first: str) -> None:
    code = f"{first}import advisor; print([name for name in advisor.__all__ if not callable(getattr(advisor, name))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_unknown_name_is_an_attribute_error() -> None:
    import advisor

    with pytest.raises(AttributeError, match="no attribute 'serch'"):
        _ = advisor.serch


def test_a_wrong_option_from_python_is_a_usage_error_with_the_nearest() -> None:
    import advisor
    from advisor.core.errors import UsageError

    with pytest.raises(UsageError, match="did you mean 'budget'"):
        advisor.search(buget="50ms")
