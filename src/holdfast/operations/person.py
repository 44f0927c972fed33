"""Who does it: the operations of a person are theirs to take back."""

from __future__ import annotations

import os


def this_person() -> str:
    """The name of the user that this process runs as."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
