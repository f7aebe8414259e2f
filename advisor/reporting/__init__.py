"""Reports of a run: terminal table, HTML page, Markdown, CSV and JSON."""

from advisor.reporting.view import DatasetSummary, RejectedImage, RunView

__all__ = ["DatasetSummary", "RejectedImage", "RunView"]
