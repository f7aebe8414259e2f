"""``advisor mcp``: let an assistant ask,
by the Model Context Protocol over standard input and output.
"""

from advisor.cli import IntegrationCommand
from advisor.integrations.mcp._command import mcp

COMMAND = IntegrationCommand(mcp, "Serve an assistant by the Model Context Protocol.")
