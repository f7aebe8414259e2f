"""What is being done, on standard error; nothing where that is no terminal."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Give a function that shows what is being done, in a line that the next replaces."""
    if not sys.stderr.isatty():
        yield lambda _text: None
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status("") as status:
        yield lambda text: status.update(escape(text))


@contextmanager
def download_bars() -> Iterator[Callable[[str, int, int | None], None]]:
    """Give a function that moves a file's bar: its name, bytes that are there, bytes of the whole where known."""
    from tqdm import tqdm

    bars: dict[str, Any] = {}
    lock = threading.Lock()

    def advance(name: str, done: int, total: int | None) -> None:
        with lock:
            if name not in bars:
                bars[name] = tqdm(desc=name, total=total, unit="B", unit_scale=True, disable=None, position=len(bars))
            bar = bars[name]
            bar.total = total
            bar.update(done - bar.n)

    try:
        yield advance
    finally:
        for bar in bars.values():
            bar.close()
