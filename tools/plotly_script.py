"""Build hook: put plotly.js into the wheel, so that reports need 5 of the 64 MB of plotly."""

from importlib.metadata import distribution
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PlotlyScript(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the file to every wheel; a checkout reads it in the package."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """See :class:`hatchling.builders.hooks.plugin.interface.BuildHookInterface`."""
        script = distribution("plotly").locate_file("plotly/package_data/plotly.min.js")
        build_data["force_include"][str(script)] = "advisor/_data/plotly.min.js"
