"""What is said of tiles."""

from advisor.core import Interval
from advisor.engine._history.tiles import TileComparison, TiledFigure
from tests.tables import with_cases


@with_cases
def test_tiles_help_only_if_the_hold_out_shows_it(gain: tuple[float, float, float], verdict: str) -> None:
    small = TiledFigure("recall of objects below 8 pixels", Interval(20, 10, 30), Interval(60, 50, 70), Interval(*gain))
    accuracy = TiledFigure("mAP@0.5", Interval(45, 40, 50), Interval(78, 75, 82), Interval(33, 29, 37))
    found = TileComparison("key", 2, 0.2, 300, 800, 5, 45.2, 150.8, (accuracy,), (small,))
    assert found.verdict.startswith(f"{verdict}. Recall of objects below 8 pixels: 60.0 % (50.0 to 70.0) in tiles")
    assert found.to_json()["verdict"] == found.lines[0] == found.verdict
    assert "takes 151 ms of CPU time in place of 45" in found.lines[2]
    assert found.lines[-1] == "judged by 300 of 800 images of the hold-out"
