"""``advisor serve``: show a folder of runs as web pages on this machine.

The entry point ``advisor.commands`` names :data:`COMMAND`, and ``cli`` adds it to the commands.
Its options and the document that it prints are documented: they stay.

Read ``_command.py`` first, then ``_pages.py`` (the addresses), ``_access.py`` (who may ask),
``_jobs.py`` and ``_phone.py`` (commands that pages start).
"""

from advisor.cli import IntegrationCommand
from advisor.integrations.serve._command import serve

COMMAND = IntegrationCommand(serve, "Show runs as local web pages.")
