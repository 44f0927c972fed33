"""How a process of holdfast is stopped: by which signals, and with which exit code."""

from __future__ import annotations

import signal

from holdfast.errors import RunInterrupted

SIGNALS = (signal.SIGINT, signal.SIGTERM)
INTERRUPTED = RunInterrupted.exit_code
