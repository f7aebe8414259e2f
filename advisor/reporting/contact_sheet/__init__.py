"""Findings of a data check: on the terminal, and as a page with the suspicious images."""
