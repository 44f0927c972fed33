"""The peers of the benchmark: other durable execution engines, each in an environment of its own.

Every peer is a worker process (`dbos_sqlite.py`, `langgraph_sqlite.py`, `restate_server.py`) that executes
commands from its stdin, so that one benchmark can measure them in turns with holdfast and raw SQLite.
"""
