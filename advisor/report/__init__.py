"""How a run is shown: terminal table, HTML page, Markdown, CSV and JSON. Only the values are imported here."""

from advisor.report.view import DatasetSummary, RejectedPicture, RunView

__all__ = ["DatasetSummary", "RejectedPicture", "RunView"]
