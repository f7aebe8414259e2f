"""What a test needs from the machine: a run without it skips the test, continuous integration fails it."""

import os
from pathlib import Path
from typing import NoReturn

import pytest

from tests.places import SHARED

NOT_SET = ("", "0", "false")


def skip_or_fail(reason: str) -> NoReturn:
    """Skip the test because ``reason``; fail it in continuous integration (``CI``), unless that cannot install it."""
    if os.environ.get("CI", "").lower() in NOT_SET:
        pytest.skip(reason)
    pytest.fail(f"{reason}; continuous integration must provide it", pytrace=False)


def shared_case(name: str) -> Path:
    """Return a file or folder of the shared cases; skip the test where they are not."""
    path = SHARED / "data" / "cases" / name
    if not path.exists():
        pytest.skip("../shared/data/cases is not here")
    return path
