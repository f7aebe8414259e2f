"""``advisor mcp``: let an assistant ask, by the Model Context Protocol.

The entry point ``advisor.commands`` names :data:`COMMAND`, and ``cli`` adds it to the commands.
Read ``_command.py`` first: it starts the server on standard input and output. ``_tools.py`` has
its tools. Assistants know these by their names and arguments, so both stay.
"""

from advisor.cli import IntegrationCommand
from advisor.integrations.mcp._command import mcp

COMMAND = IntegrationCommand(mcp, "Serve an assistant by the Model Context Protocol.")
