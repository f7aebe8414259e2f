"""A part that a test needs and that is missing."""

import pytest

from tests.requirements import skip_or_fail


@pytest.mark.parametrize("value", ["", "0", "false"])
def test_on_a_developers_machine_the_test_is_skipped(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("CI", value)
    with pytest.raises(pytest.skip.Exception, match="adb is not installed"):
        skip_or_fail("adb is not installed")


def test_in_continuous_integration_the_test_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="adb is not installed"):
        skip_or_fail("adb is not installed")
