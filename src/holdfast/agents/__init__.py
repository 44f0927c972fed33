"""Tools for agents: tools that stay inside the workspace, each call a recorded step."""
