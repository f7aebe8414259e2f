"""An executor that cannot be had ends the command before anything is spent."""

import socket
from pathlib import Path

import pytest

import advisor
from advisor.core import UsageError
from advisor.engine import resolve
from tests.builders import must_fail
from tests.tables import with_cases


def test_an_unreachable_cluster_is_named_with_a_hint(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody else answers there
        address = f"ray://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UsageError, match=address) as refused:
            advisor.search(executor=address, budget="50ms", out=str(tmp_path / "runs"))
    assert "ray start --head" in refused.value.hint
    assert not (tmp_path / "runs").exists()


@with_cases
def test_what_there_is_not_is_refused(options: dict[str, object], words: str) -> None:
    caught = must_fail(UsageError, "", resolve, options)
    assert words in caught.message + caught.hint


@pytest.mark.parametrize("port", ["", f":{'9' * 5000}"])
def test_an_address_without_a_port_is_refused(port: str) -> None:
    from advisor.integrations.ray._cluster import connect

    caught = must_fail(UsageError, "names no port", connect, f"cluster.example{port}", 1)
    assert "ray://cluster.example:10001" in caught.hint
