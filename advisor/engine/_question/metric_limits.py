"""Parse the limits of metrics: ``--min-accuracy`` (floors) and ``--max-drop`` (drops).

Both take one limit of the metric that counts, and limits of other metrics by name.
``parsing.py`` puts them into :class:`~advisor.core.Limits`.
"""

from advisor.core import METRICS, Metric, UsageError, require_known, units
from advisor.engine._question.options import Options

FLOORS = "--min-accuracy"
DROPS = "--max-drop"

MetricLimits = tuple[tuple[str, float], ...]
"""Limits of metrics by their names."""


def parse_floors(written: Options, metric: str) -> tuple[float | None, MetricLimits]:
    """Return the least accuracy in %, None for none, and the least values of other metrics.

    ``--min-accuracy`` is ``85%`` for the metric that counts, ``worst-group=70%`` for another one,
    or both with commas.
    """
    texts = _split_by_metric(FLOORS, ",".join(written["min_accuracy"]), metric, "85%")
    floors = {}
    for name, text in texts.items():
        require_costs(FLOORS, name, written)
        floors[name] = units.parse_percent(text, FLOORS)
    return floors.pop(metric, None), tuple(sorted(floors.items()))


def parse_drops(written: Options, metric: str) -> tuple[float | None, MetricLimits]:
    """Return the points of accuracy that may be lost, None for any, and those of other metrics.

    ``--max-drop`` is ``1pt`` for the metric that counts, ``map-small=5pt`` for another one,
    or both with commas.
    """
    texts = _split_by_metric(DROPS, written["max_drop"], metric, "1pt")
    drops = {name: units.parse_points(text, DROPS) for name, text in texts.items()}
    return drops.pop(metric, None), tuple(sorted(drops.items()))


def _split_by_metric(option: str, asked: str, metric: str, example: str) -> dict[str, str]:
    """Return the limit of each metric as text;
    one without a name is that of the ``metric`` that counts.
    """
    texts: dict[str, str] = {}
    for part in filter(None, map(str.strip, asked.split(","))):
        name, equals, text = part.rpartition("=")
        name = _find_metric(option, name) if equals else metric
        if name in texts:
            raise UsageError(
                f"{option}: '{asked}' has two limits of {name}",
                f"keep one: {option} {name}={example}",
            )
        texts[name] = text.strip()
    return texts


def _find_metric(option: str, written: str) -> str:
    """Return the metric that a user named; UsageError if there is none."""
    name = written.strip().casefold()
    # Limits of objects of a size are mostly written without the metric: small=5pt.
    of_size = f"map-{name}"
    return require_known(option, of_size if of_size in METRICS else name, tuple(METRICS))


def require_costs(option: str, name: str, written: Options) -> None:
    """Refuse the metric of saved cost where no option says what an answer costs."""
    if name == Metric.COST_SAVED and not written["costs"]:
        raise UsageError(
            f"{option}: {Metric.COST_SAVED} needs the cost of each answer", "add --costs costs.csv"
        )
