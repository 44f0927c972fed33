"""Operations: which kinds can begin, and what a newer version's kind folds to."""

import pytest

from holdfast.errors import Refused
from holdfast.kernel import events as e
from holdfast.kernel import operation


@pytest.mark.parametrize("kind", sorted(operation.KINDS))
def test_known_kinds_begin(kind):
    """A kind that this version knows becomes the event."""
    assert operation.begin(kind, "r", "ann", "a#1") == e.OperationBegun(kind, "r", "ann", "a#1")
    operation.refuse_unknown("aa1", kind)


def test_an_unknown_kind_is_refused_where_it_is_decided_on():
    """It cannot begin here, and an operation of that kind can be neither undone nor finished here."""
    with pytest.raises(Refused, match="reassign"):
        operation.begin("reassign", "r")
    with pytest.raises(Refused, match="newer holdfast"):
        operation.refuse_unknown("aa1", "reassign")


def test_an_unknown_kind_folds():
    """Reading never refuses it."""
    begun = e.decode("OperationBegun", '{"kind":"reassign","run":"r"}')
    state = operation.fold([(begun, 1, 5), (e.OperationDone(), 2, 6)])
    assert state == operation.OperationState("reassign", "r", "", "", "", 5, "done")
