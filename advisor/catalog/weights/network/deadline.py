"""End requests whose time has passed, whatever the server sends."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from requests.adapters import HTTPAdapter

from advisor.core.units import show_bytes, show_seconds


class Deadline:
    """The time for one page or one file, with all attempts; when it has passed, its connections are shut down.

    A time-out of a socket is not enough: it starts again with each byte that a slow server sends.

    Args:
        patience_s: the time for every ``step_bytes``.
        most_s: the time for everything.
        step_bytes: what has to arrive before the patience starts again.
    """

    def __init__(self, patience_s: float, most_s: float, step_bytes: int) -> None:
        self._patience_s, self._most_s, self._step_bytes = patience_s, most_s, step_bytes
        self._last = time.monotonic() + most_s
        self._end = min(time.monotonic() + patience_s, self._last)
        self._next_bytes = step_bytes
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._connections: list[socket.socket] = []
        self._thread = threading.Thread(target=self._wait, name="advisor-deadline", daemon=True)

    def __enter__(self) -> Deadline:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        for connection in self._connections:
            connection.close()

    @property
    def left_s(self) -> float:
        """Seconds that are left, 0 when the time has passed."""
        return max(0.0, self._end - time.monotonic())

    @property
    def reason(self) -> str:
        """Reason why a request was ended."""
        if self._end >= self._last:
            return f"not done after {show_seconds(self._most_s)}"
        return f"too slow: less than {show_bytes(self._step_bytes)} in {show_seconds(self._patience_s)}"

    def reached(self, done_bytes: int) -> None:
        """Start the patience again if another step has arrived."""
        if done_bytes >= self._next_bytes:
            self._next_bytes = done_bytes + self._step_bytes
            self._end = min(time.monotonic() + self._patience_s, self._last)

    def watch(self, connection: socket.socket) -> None:
        """Shut ``connection`` down when the time has passed."""
        with self._lock:
            # A copy: TLS takes the descriptor away from the socket that it is given.
            self._connections.append(connection.dup())
            if self.left_s == 0:
                self._shut_down()

    def _wait(self) -> None:
        while left := self.left_s:
            if self._over.wait(left):
                return
        with self._lock:
            self._shut_down()

    def _shut_down(self) -> None:
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class WatchedAdapter(HTTPAdapter):
    """Calls ``watch`` with the socket of every new connection, before a byte is sent."""

    def __init__(self, watch: Callable[[socket.socket], None]) -> None:
        self._watch = watch
        super().__init__()

    def get_connection_with_tls_context(self, *args: Any, **kwargs: Any) -> Any:
        """Return a pool that makes watched connections."""
        pool: Any = super().get_connection_with_tls_context(*args, **kwargs)
        if not isinstance(pool.ConnectionCls, partial):
            pool.ConnectionCls = partial(self._connection, pool.ConnectionCls)
        return pool

    def _connection(self, kind: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        connection = kind(*args, **kwargs)
        connect = connection._new_conn

        def watched() -> socket.socket:
            opened: socket.socket = connect()
            self._watch(opened)
            return opened

        connection._new_conn = watched
        return connection
