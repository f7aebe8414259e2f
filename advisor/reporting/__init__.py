"""How a run is shown: terminal table, HTML page, Markdown, CSV and JSON. Only the values are imported here."""

from advisor.reporting.view import DatasetSummary, RejectedImage, RunView

__all__ = ["DatasetSummary", "RejectedImage", "RunView"]
