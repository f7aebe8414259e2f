"""Garbage is not looked for while much is built, and is afterwards, whatever happens."""

from __future__ import annotations

import gc

import pytest

from advisor.store.gc_paused import gc_paused


def test_nothing_is_collected_meanwhile() -> None:
    with gc_paused():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_is_collected_again_after_a_failure() -> None:
    @gc_paused()
    def fails() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fails()
    assert gc.isenabled()


def test_who_had_it_off_keeps_it_off() -> None:
    gc.disable()
    try:
        with gc_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
