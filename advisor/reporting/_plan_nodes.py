"""Say in a plan how many operators (nodes) of each network an accelerator of a device would run."""

from collections.abc import Iterator

from advisor.core import plural
from advisor.engine import Forecast, PlanView

NODES_WIDTH = 12  # Columns of a terminal that the numbers of nodes need beside the others


def count_nodes(forecast: Forecast) -> str:
    """Return how many nodes run on an accelerator of all, such as ``3/630``; ``?`` if that is not known.

    ``11 or 630/630`` are those of two drivers, of which one is used.
    """
    counts = set[int]()
    nodes = None
    for share in forecast.nodes:
        if share.delegated is None:
            return "?"
        counts.add(share.delegated)
        nodes = share.nodes
    if not counts:
        return ""
    delegated = " or ".join(map(str, sorted(counts)))
    return f"{delegated}/{nodes}"


def describe_nodes(view: PlanView) -> Iterator[str]:
    """Yield for each accelerator of a device how many files it runs whole, and where the counts come from."""
    for summary in view.node_summaries:
        start = f"Nodes on the {summary.unit.upper()} of {summary.device}"
        least = summary.least
        if not summary.files:
            yield f"{start}: not known before a measurement, because {least.reason}."
            continue
        files = plural(summary.files, "file")
        text = f"{start}: {summary.accelerator} runs {summary.whole} of {files} whole"
        if summary.least_file:
            why = f" ({least.reason})" if least.reason else ""
            text += f"; of {summary.least_file} {least.delegated} of {least.nodes} nodes{why}"
            text += ", and predictions are of whole ones"
        yield f"{text}. Computed from the graphs by {least.sources[0]}; not measured."
