"""Building much at once that stays."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Iterator[None]:
    """Do not look for garbage meanwhile; also a decorator.

    Where a hundred thousand values are made that all stay, the collector walks over them again and again and finds
    nothing: a fourth of the time of taking up a run of ten thousand evaluations.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
