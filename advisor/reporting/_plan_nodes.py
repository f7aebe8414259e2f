"""Say in a plan how many operators (nodes) of each network an accelerator of a device would run."""

from collections.abc import Iterator, Mapping, Sequence

from advisor.core import plural
from advisor.engine import Forecast, NodeShare

NODES_WIDTH = 12  # Columns of a terminal that the numbers of nodes need beside the others

Shares = Mapping[str, NodeShare]
"""What one accelerator runs, by the name of the file."""


def count_nodes(shares: Sequence[NodeShare]) -> str:
    """Return how many nodes run on an accelerator of all, such as ``3/630``; ``?`` if that is not known.

    ``11 or 630/630`` are those of two drivers, of which one is used.
    """
    counts = set[int]()
    nodes = None
    for share in shares:
        if share.delegated is None:
            return "?"
        counts.add(share.delegated)
        nodes = share.nodes
    return f"{' or '.join(map(str, sorted(counts)))}/{nodes}" if counts else ""


def describe_nodes(forecasts: Sequence[Forecast]) -> Iterator[str]:
    """Yield for each accelerator of a device how many files it runs whole, and where the counts come from."""
    by_accelerator: dict[tuple[str, str, str], dict[str, NodeShare]] = {}
    for forecast in forecasts:
        file = f"{forecast.configuration.card} {forecast.configuration.compression}"
        for share in forecast.nodes:
            shares = by_accelerator.setdefault((share.device, share.unit, share.accelerator), {})
            shares[file] = share
    for (device, unit, accelerator), shares in by_accelerator.items():
        yield f"Nodes on the {unit.upper()} of {device}: {_describe_shares(accelerator, shares)}."


def _describe_shares(accelerator: str, shares: Shares) -> str:
    """Return what one accelerator runs of files, and from where it is known; or why it is not known."""
    known = {file: share for file, share in shares.items() if share.nodes is not None}
    if not known:
        reason = next(iter(shares.values())).reason
        return f"not known before a measurement, because {reason}"
    parts = {file: share for file, share in known.items() if not share.runs_whole}
    text = f"{accelerator} runs {len(known) - len(parts)} of {plural(len(known), 'file')} whole"
    if parts:
        # The file with the least is the least likely to be as fast as predicted.
        file = min(parts, key=lambda name: _share_of(parts[name]))
        share = parts[file]
        why = f" ({share.reason})" if share.reason else ""
        text += f"; of {file} {share.delegated} of {share.nodes} nodes{why}, and predictions are of whole ones"
    source = next(iter(known.values())).sources[0]
    return f"{text}. Computed from the graphs by {source}; not measured"


def _share_of(share: NodeShare) -> float:
    return (share.delegated or 0) / (share.nodes or 1)
