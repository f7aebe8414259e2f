"""Fail a unit test that starts a child process or loads TensorFlow."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest

HEAVY = ("tensorflow", "keras")
STARTS = frozenset({"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.system", "os.spawn"})


class UnitGuard:
    """Reads the interpreter's audit events while a test marked ``unit`` runs.

    Python offers no way to remove an audit hook, so the hook stays and does nothing between unit tests. It records
    and does not raise: an exception in a thread that starts a process would leave the test waiting for it.
    Processes of ``multiprocessing``'s spawn method raise no audit event: mark their tests by hand.
    """

    def __init__(self) -> None:
        self._offences: list[str] | None = None
        sys.addaudithook(self._audit)

    def pytest_collection_finish(self) -> None:
        """Stop where a test module loads TensorFlow at its import: every run would pay for it."""
        for name in HEAVY:
            if name in sys.modules:
                raise pytest.UsageError(f"a test module loads {name} at its import: import it inside the tests")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Watch the set-up, the call and the tear-down of a unit test."""
        self._offences = [] if item.get_closest_marker("unit") else None
        try:
            return (yield)
        finally:
            self._offences = None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Fail the test if its set-up or its call did what only an integration test may do."""
        result = yield
        if self._offences:
            pytest.fail(f"a unit test {self._offences[0]}: mark it pytest.mark.integration", pytrace=False)
        return result

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._offences is None:
            return
        if event in STARTS:
            self._offences.append(f"started a child process ({event}: {arguments[0] if arguments else ''})")
        elif event == "import" and arguments[0] in HEAVY:
            self._offences.append(f"loaded {arguments[0]}")
