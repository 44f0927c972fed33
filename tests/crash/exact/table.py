"""All cases. The order of these imports is the order of the table."""

# isort: skip_file
from tests.crash.exact import issue_cases  # noqa: F401
from tests.crash.exact import asyncio_cases  # noqa: F401
from tests.crash.exact import thread_cases  # noqa: F401
from tests.crash.exact import gate_cases  # noqa: F401
from tests.crash.exact import anyio_cases  # noqa: F401
from tests.crash.exact import agent_cases  # noqa: F401
from tests.crash.exact.cases import CASES as CASES
