"""Numbers of bytes as people write and read them."""

import pytest

from holdfast.errors import BadInput
from holdfast.sizes import amount, parse


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("812", 812),
        ("812 bytes", 812),
        ("140KB", 140 << 10),
        ("16MB", 16 << 20),
        ("16 mib", 16 << 20),
        ("1.5G", 3 << 29),
        ("2TB", 2 << 40),
    ],
)
def test_a_size_is_read(text, size):
    assert parse(text) == size


@pytest.mark.parametrize("text", ["", "MB", "-1", "16 XB", "1e3", "16MB2"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(BadInput, match="is no size"):
        parse(text)


@pytest.mark.parametrize("size", [0, 812, 140 << 10, 16 << 20, 3 << 30])
def test_what_is_shown_can_be_read(size):
    assert parse(amount(size)) == size
