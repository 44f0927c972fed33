"""Going on with every run of a store: `holdfast resume --all`, with `--follow` until it is stopped.

A run of another directory or interpreter is executed by a process of its own:
`python -m holdfast.cli.serving HOME RUN` goes on with one run, to its end or until it waits.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING

from holdfast import wiring
from holdfast.errors import Refused

if TYPE_CHECKING:
    from holdfast.cli.access import Opened

FAILED, NEEDS_ATTENTION, INTERRUPTED = 1, 6, 130


def resume_all(*, follow: bool, as_json: bool) -> int:
    """Serve what can go on now; to `follow`, until a signal comes."""
    from holdfast.cli import access
    from holdfast.cli.foreground import Foreground
    from holdfast.cli.terminal import say
    from holdfast.engine.serving import Service

    stop = threading.Event()
    with Foreground() as foreground, access.open_to_execute() as (opened, engine):
        if not engine.options.resume:
            raise Refused(
                "the setting `resume` is off: nothing goes on by itself here; name a run, or change it"
            )
        teller = _Teller(opened, as_json=as_json)

        def served(run_id: str, error: BaseException | None) -> None:
            teller.tell(run_id, error)
            wiring.keep_to_quota(opened.place, engine)

        service = Service(engine, engine.options.recover_limit, served)
        if follow:
            # The owner is born here, so that whoever decides sees that somebody is there to go on.
            who = f"process {os.getpid()} (owner {engine.owner_id})"
            say(f"{who} goes on with the runs of {opened.place.home}; Ctrl-C stops it")

        def halt(why: str) -> None:
            stop.set()
            engine.stop(why)

        outcome = foreground.wait(lambda: (service.run if follow else service.drain)(stop), halt)
        if outcome.error is not None:
            raise outcome.error
        if not follow and not service.served:
            say("nothing can go on by itself; `holdfast list --resumable` shows what waits for somebody")
    if stop.is_set():
        return 0 if follow else INTERRUPTED
    return teller.code


class _Teller:
    """Says how each run stands that was served. Called from any thread."""

    def __init__(self, opened: Opened, *, as_json: bool) -> None:
        self._opened = opened
        self._as_json = as_json
        self.code = 0

    def tell(self, run_id: str, error: BaseException | None) -> None:
        from holdfast.cli.detail import Detail
        from holdfast.cli.ending import sentence
        from holdfast.cli.terminal import out, say

        detail = Detail(self._opened, run_id)
        status = detail.info.status
        if status == "failed":
            self.code = self.code or FAILED
        elif status == "needs_attention":
            self.code = NEEDS_ATTENTION
        if self._as_json:
            import msgspec

            from holdfast.cli.showing import fields

            out.offer(msgspec.json.encode(fields(detail)).decode() + "\n")
        elif status == "completed":
            say([("completed", "green"), f" {run_id}"])
        else:
            say(sentence(detail, error))


def main() -> int:
    """Go on with one run, to its end or until it waits."""
    home, run_id = sys.argv[1:3]
    place = wiring.find_place({"home": home}, create=False)
    store = wiring.open_store(place)
    try:
        engine = wiring.open_engine(place, store)
        try:
            engine.resume(run_id, stay=False).rested.wait()
        except KeyboardInterrupt:  # the run stops at its next step boundary
            return INTERRUPTED
        finally:
            engine.close()
    finally:
        store.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
