"""The file that connections measure."""

from tests.devices.conftest import model

__all__ = ["model"]
