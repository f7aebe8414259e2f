"""Makers: what several tests share, and what makes it.

Each module makes things of one kind, and offers them as fixtures that every test may ask for by name. What is
expensive is made once for all workers of a test run, see :mod:`tests.makers.once`. Nobody may change it: a test that
needs another state copies it first.

A ``conftest.py`` holds only what the tests of its own folder use. No file imports from one.
"""

import pytest

MAKERS = (
    "tests.makers.once",
    "tests.makers.aihub",
    "tests.makers.browsers",
    "tests.makers.commands",
    "tests.makers.imports",
    "tests.makers.kotlin",
    "tests.makers.networks",
    "tests.makers.phones",
    "tests.makers.devicefarm",
    "tests.makers.searches",
    "tests.makers.bundles",
    "tests.makers.servers",
    "tests.makers.stores",
    "tests.makers.swift",
    "tests.makers.weights",
)
"""Modules with fixtures; one that imports another comes after it."""

pytest.register_assert_rewrite(*MAKERS)  # Before one of them is imported
