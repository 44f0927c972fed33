"""Views of runs: structs that a terminal draws, HTTP serves and programs read.

Each has one `to_json`, whose names do not change. Everything in a view is redacted. A view says what to do
next as `Way`s, never as text for a shell.
"""
