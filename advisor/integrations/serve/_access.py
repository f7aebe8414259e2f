"""Who may ask the pages: only addresses with the token of this start, and reports by a key
of their own.

``_command.py`` makes one :class:`Access`, which guards all addresses of ``_pages.py``.
"""

import hmac
from dataclasses import dataclass

from advisor.cli import LocalServer

REPORT = "report"
REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline';"
    " style-src 'unsafe-inline'; img-src data: blob:; form-action 'none'; frame-ancestors 'self';"
    " base-uri 'none'"
)
"""A report comes from a run folder, maybe of somebody else:
its scripts reach nothing outside their own page.
"""


@dataclass(frozen=True)
class Access(LocalServer):
    """The rules of one server."""

    def report(self, run: str) -> str:
        """Return the path of a report before its name.

        It has a key of its own, because scripts of a page read it.
        """
        return f"/{REPORT}/{self._report_key(run)}"

    def keys_of(self, segments: list[str]) -> tuple[str, str]:
        """See :meth:`.LocalServer.keys_of`; a report has its own key."""
        if segments[0] == REPORT and len(segments) > 2:
            return self._report_key(segments[2]), segments[1]
        return super().keys_of(segments)

    def _report_key(self, run: str) -> str:
        return hmac.new(self.token.encode(), run.encode(), "sha256").hexdigest()
