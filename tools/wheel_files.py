"""Build hook: what a wheel holds besides the files of the repository, plotly.js and JSON Schemas.

``pyproject.toml`` names it. Reports need 5 of the 64 MB of plotly. The schemas are made from the
types of the code, so the repository has none.
"""

import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

EDITABLE = "editable"


class WheelFiles(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the files to every wheel;
    an editable installation reads them in the checkout and in plotly.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """See :class:`hatchling.builders.hooks.plugin.interface.BuildHookInterface`."""
        self.folder: Path | None = None
        if version == EDITABLE:
            self._write_schemas()
            return
        script = distribution("plotly").locate_file("plotly/package_data/plotly.min.js")
        build_data["force_include"][str(script)] = "advisor/_data/plotly.min.js"
        # Not in the checkout: it may be read-only, and two builds may run at once.
        self.folder = Path(tempfile.mkdtemp(prefix="advisor-schemas-"))
        self._write_schemas(str(self.folder))
        build_data["force_include"][str(self.folder)] = "advisor/_data/schemas"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """See :class:`hatchling.builders.hooks.plugin.interface.BuildHookInterface`."""
        if self.folder is not None:
            shutil.rmtree(self.folder)

    def _write_schemas(self, *folder: str) -> None:
        # In a child process: the backend's own process need not find the package,
        # nor keep what its import loads.
        subprocess.run(
            [sys.executable, "-m", "tools.schemas", *folder],
            cwd=self.root,
            check=True,
            stdout=sys.stderr,
        )
