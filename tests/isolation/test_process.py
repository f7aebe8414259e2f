"""A program that cannot be started."""

import pytest

from advisor.core.errors import UsageError
from advisor.isolation.process import run_program


@pytest.mark.integration
def test_a_program_that_is_not_installed_is_named() -> None:
    with pytest.raises(UsageError, match="'no-such-program' is not installed") as caught:
        run_program(["no-such-program"], timeout_s=1, hint="install it")
    assert caught.value.hint == "install it"
