"""Work in this process, for tests that are not about the child which does it; the import of a user's model."""

import pickle
from typing import Any

import pytest

from advisor.catalog._user_models import import_model
from advisor.isolation import CallLimits, ChildPool, Pause, _child as child


class InThisProcess(ChildPool):
    """Runs functions as a child process does, without its start: what cannot be sent to one, or from it, fails."""

    def begin(self) -> None:
        """Start nothing."""

    def call(self, function: str, *args: object, limits: CallLimits | None = None, pause: Pause | None = None) -> Any:
        """Call ``module:function`` and return its value, or raise its error."""
        succeeded, value = pickle.loads(pickle.dumps(child._answer(function, pickle.loads(pickle.dumps(args)))))
        if not succeeded:
            raise value
        return value


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model is imported without a child."""
    monkeypatch.setattr(import_model, "ChildPool", InThisProcess)


@pytest.fixture
def in_child(in_process: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model is imported in a child after all."""
    monkeypatch.setattr(import_model, "ChildPool", ChildPool)
