"""The conversation of the kill drill, for the test that scripts it."""

from holdfast.testing import Answer, ToolCall

TURNS = [
    ToolCall("read", {"path": "a"}),
    [ToolCall("read", {"path": "b"}), ToolCall("write", {"path": "c", "text": "1"})],
    ToolCall("write", {"path": "d", "text": "2"}),
    ToolCall("delete", {"path": "a"}),
    Answer(text="a look at it", calls=(ToolCall("read", {"path": "c"}),)),
    "all of it is done",
]
"""Six requests and six tool calls, two of them at once, one behind an approval."""

NOTE = "take a note"
NOTES = [[ToolCall("note", {"text": "a"}), ToolCall("note", {"text": "b"})], "both are noted"]
"""The conversation with this goal: two calls at once of a tool that a server has."""
