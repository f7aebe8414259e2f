"""Reports of a run: terminal table, HTML page, Markdown, CSV and JSON."""
