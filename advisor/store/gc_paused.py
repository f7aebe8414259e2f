"""Pause the garbage collector while many values are made that all stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the garbage collector; use it as a context manager or as a decorator.

    If a hundred thousand values are made that all stay, the collector visits them again and again without a result.
    Without it, reading a run of ten thousand evaluations takes a quarter less time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
