"""Cards over small files, and a machine whose pip and npm are set up for the test alone."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from advisor.store import FetchOptions
from advisor.store._downloads import delivery


@pytest.fixture
def options(tmp_path: Path) -> FetchOptions:
    return FetchOptions(cache=tmp_path / "cache")


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    monkeypatch.delenv("PIP_NO_INDEX", raising=False)
    return lambda url: monkeypatch.setenv("PIP_INDEX_URL", url)


@pytest.fixture
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture(autouse=True)
def plain_machine(own_settings: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """No configuration of this machine's user reaches a test, and no download pauses."""
    monkeypatch.setattr(delivery, "FIRST_PAUSE_S", 0.0)
