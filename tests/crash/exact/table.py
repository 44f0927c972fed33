"""All cases, in the order of the table."""

from tests.crash.exact import (  # noqa: F401  (each registers its cases)
    issue_cases,
    asyncio_cases,
    thread_cases,
    gate_cases,
    anyio_cases,
    agent_cases,
)
from tests.crash.exact.cases import CASES as CASES
