"""Jobs of stages that only tests have."""

import shutil
from pathlib import Path


def copy(source: Path, target: Path) -> None:
    """Leave a file that is there already."""
    shutil.copyfile(source, target)
