"""Two searches on one machine that want the same: one does it for both, and the other says for whom it waits."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from advisor.store import ArtifactCache
from tests.processes import PATIENCE_S


def test_who_makes_it_is_told_to_whoever_waits(tmp_path: Path) -> None:
    cache, inputs, made, told = ArtifactCache(tmp_path), {"card": "a"}, threading.Event(), threading.Event()
    seen: list[str] = []

    def make(folder: Path) -> None:
        made.set()
        assert told.wait(PATIENCE_S)
        (folder / "file").write_text("made")

    def tell(who: str) -> None:
        seen.append(who)
        told.set()

    first = threading.Thread(target=cache.get, args=("train-1", inputs, make))
    first.start()
    assert made.wait(PATIENCE_S)
    folder = cache.get("train-1", inputs, lambda _: seen.append("made twice"), tell)
    first.join()
    assert seen == [f"process {os.getpid()}"]
    assert (folder / "file").read_text() == "made"
    assert not list(tmp_path.glob("train-1/*.holder"))
