"""The work on a user's model in this process, for tests that are not about the child which does it."""

from pkgutil import resolve_name
from typing import Any

import pytest

from advisor.catalog._user_models import import_model
from advisor.isolation import CallLimits, ChildPool


class Here:
    """Stands for :class:`advisor.isolation.ChildPool`; calls functions in this process."""

    def __init__(self, *_: object) -> None: ...

    def __enter__(self) -> "Here":
        return self

    def __exit__(self, *_: object) -> None: ...

    def call(self, function: str, *arguments: object, limits: CallLimits) -> Any:
        return resolve_name(function)(*arguments)


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model is imported without a child."""
    monkeypatch.setattr(import_model, "ChildPool", Here)


@pytest.fixture
def in_child(in_process: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model is imported in a child after all."""
    monkeypatch.setattr(import_model, "ChildPool", ChildPool)
