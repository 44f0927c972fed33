"""The store in memory keeps the contract."""

from collections.abc import Callable

import pytest

from holdfast.store.oracle import OracleStore
from holdfast.testing import StoreContract
from holdfast.testing.reader_contract import Tampering


class TestOracle(StoreContract):
    @pytest.fixture
    def make_store(self) -> Callable[..., OracleStore]:
        return lambda name="": OracleStore()

    def tamper(self, store: OracleStore, what: Tampering) -> None:
        run = store.streams["r"]
        if what == "payload":
            run.log[-1] = run.log[-1]._replace(payload=run.log[-1].payload[:-1] + " }")
        elif what == "tail":
            run.log.pop()
        elif what == "stream":
            del store.streams["r"]
        elif what == "blob":
            store.blobs = dict.fromkeys(store.blobs, b"changed")
        else:
            run.state.status = "paused"
