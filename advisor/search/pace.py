"""How fast this machine does the stages of a search, learnt from those it has done."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

from advisor.benchmark import host
from advisor.store import cache_root
from advisor.store.run_folder import write_atomically

MOST = 30.0
"""A ratio beyond this says more about a disturbance than about the machine."""

NEW_WEIGHT = 0.5
"""Weight of the last search against those before it."""


class PaceBook:
    """Seconds that stages took over their rough price, by stage, kept for the next plan.

    Args:
        file: where it is kept; by default in the cache, one a machine.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file or cache_root() / f"pace-{host.describe().fingerprint}.json"
        self.pace = _read(self._file)
        self._priced: dict[str, float] = {}

    def note(self, stage: str, price_s: float) -> None:
        """Take note of a stage that was done, of which the plan thought that it takes ``price_s``."""
        self._priced[stage] = self._priced.get(stage, 0.0) + price_s

    def keep(self, spent: Mapping[str, float]) -> None:
        """Compare with the seconds that were spent, by stage and version such as ``convert-2``, and keep the ratio."""
        pace = dict(self.pace)
        for name, seconds in spent.items():
            stage = name.rsplit("-", 1)[0]
            price = self._priced.get(stage, 0.0)
            if price > 0 and seconds > 0:
                old = math.log(pace.get(stage, 1.0))
                step = math.log(seconds / price)
                weight = NEW_WEIGHT if stage in pace else 1.0
                pace[stage] = min(max(math.exp(old + weight * step), 1 / MOST), MOST)
        if pace != dict(self.pace):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._file, json.dumps(pace, indent=1, sort_keys=True) + "\n")


def _read(file: Path) -> Mapping[str, float]:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    rows = data.items() if isinstance(data, dict) else ()
    return {str(stage): float(ratio) for stage, ratio in rows if isinstance(ratio, int | float) and 0 < ratio <= MOST}
