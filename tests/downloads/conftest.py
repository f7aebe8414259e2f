"""A web server on this machine, and a machine whose pip and npm are set up for the test alone."""

from tests.catalog.conftest import shelf
from tests.catalog.weights.conftest import own_settings

__all__ = ["own_settings", "shelf"]
