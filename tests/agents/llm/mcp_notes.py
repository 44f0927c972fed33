"""A server of the Model Context Protocol on standard input and output, with one tool that has an effect.

python mcp_notes.py LEDGER
"""

import sys

from mcp.server import MCPServer

server = MCPServer("notes")


@server.tool()
def note(text: str) -> str:
    """Write a note."""
    with open(sys.argv[1], "a") as file:
        file.write(f"note {text}\n")
    return f"noted {text}"


if __name__ == "__main__":
    server.run()
