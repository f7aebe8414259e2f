"""Find the control groups of Linux that limit this process, of version 2 and of version 1.

``_cores.py`` reads quotas of processors there, ``_memory.py`` limits of memory.
"""

from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
"""The folder in which Linux shows the limits of control groups."""

LISTING = Path("/proc/self/cgroup")
"""The file that lists the groups of this process: ``number:controllers:path``."""


def list_groups(controller: str, root: Path = ROOT, listing: Path = LISTING) -> Iterator[Path]:
    """Yield the folders of the groups with a controller (``cpu`` or ``memory``) that this process
    is in, and of those above, which limit it, too.

    Version 2 has one tree, version 1 one for each controller. A container may not see the folder
    of its own group; then the tree begins with it.
    """
    try:
        rows = listing.read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for row in rows:
        _, _, rest = row.partition(":")
        controllers, colon, path = rest.partition(":")
        if not colon or (controllers and controller not in controllers.split(",")):
            continue
        # Only the tree of version 2 has no controllers in its row.
        tree = root / controller if controllers else root
        group = tree / path.strip("/")
        for folder in (group, *group.parents):
            if folder.is_relative_to(tree):
                yield folder
