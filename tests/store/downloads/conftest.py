"""A machine whose pip and npm are set up for the test alone."""

import pytest


@pytest.fixture(autouse=True)
def plain_machine(own_settings: None) -> None:
    """No configuration of this machine's user reaches a test."""
