"""``advisor mcp``: let an assistant ask, by the Model Context Protocol.

``_command.py`` starts the server on standard input and output; ``_tools.py`` has its tools.
"""

from advisor.cli import IntegrationCommand
from advisor.integrations.mcp._command import mcp

COMMAND = IntegrationCommand(mcp, "Serve an assistant by the Model Context Protocol.")
