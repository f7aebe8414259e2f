"""What a test needs from the machine: a run without it skips the test, continuous integration fails it."""

import os
from typing import NoReturn

import pytest

NOT_SET = ("", "0", "false")


def skip_or_fail(reason: str) -> NoReturn:
    """Skip the test because ``reason``; fail it in continuous integration (``CI`` is set), which installs every part.

    What continuous integration cannot install (``../shared``, PyTorch) is skipped by ``pytest.skip`` instead.
    """
    if os.environ.get("CI", "").lower() in NOT_SET:
        pytest.skip(reason)
    pytest.fail(f"{reason}; continuous integration must provide it", pytrace=False)
