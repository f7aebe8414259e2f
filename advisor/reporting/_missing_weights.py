"""Say why networks have no weights on this machine, from the reasons in the manifest of a run."""

import re
from collections import Counter
from collections.abc import Mapping

from advisor.core import plural

ADDRESS = re.compile(r"https://([^\s/:]+)\S*: ([^\n]+)")
"""A server and why nothing came from it, in the reason of weights that could not be downloaded."""


def explain_missing(without: Mapping[str, str]) -> str:
    """Return how many networks have no weights here, and what to do.

    ``without`` has the reason of each network by its name.
    """
    servers = Counter[str]()
    causes = Counter[str]()
    downloads = 0
    for reason in without.values():
        failures = ADDRESS.findall(reason)
        downloads += bool(failures)
        # A network may have several sources, such as a mirror, and counts once for each server.
        tried = set()
        answers = set()
        for server, cause in failures:
            tried.add(server)
            answers.add(cause)
        servers.update(tried)
        causes.update(answers)
    if downloads < len(without):
        return f"{len(without)} without weights here: advisor catalog fetch --all"
    # The search has tried already, so fetching once more is no advice.
    ((server, _),) = servers.most_common(1)
    if len(servers) > 1:
        server += f" and {plural(len(servers) - 1, 'other server')}"
    ((cause, _),) = causes.most_common(1)
    if len(causes) > 1:
        cause = f"mostly {cause}"
    return f"{len(without)} could not be downloaded from {server}: {cause}"
