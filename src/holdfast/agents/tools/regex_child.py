"""A process that matches a regular expression, so that one that never ends can be killed. Imports the
standard library only.

Frames on standard input, each 4 bytes of length and a body: first `{"pattern": ..., "ignore_case": ...,
"most": ..., "width": ..., "cpu_s": ...}`, then lists of texts. The answer to each is one line of JSON: `[]`
or `{"error": ...}` to the first, and for each text the numbers of the lines that match.
"""

import json
import re
import resource
import sys


def main() -> None:
    request = json.loads(_frame() or "{}")
    # If the parent dies, the expression must not run for ever.
    limit = int(request["cpu_s"]) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    try:
        expression = re.compile(request["pattern"], re.IGNORECASE if request["ignore_case"] else 0)
    except (re.error, OverflowError, RecursionError) as error:
        _answer({"error": str(error) or type(error).__name__})
        return
    _answer([])
    most, width = request["most"], request["width"]
    while (frame := _frame()) is not None:
        _answer([_matching(expression, text, most, width) for text in json.loads(frame)])


def _matching(expression: "re.Pattern[str]", text: str, most: int, width: int) -> list[int]:
    found: list[int] = []
    for number, line in enumerate(text.split("\n"), 1):
        if expression.search(line.rstrip("\r")[:width]):
            found.append(number)
            if len(found) >= most:
                break
    return found


def _frame() -> bytes | None:
    length = sys.stdin.buffer.read(4)
    return sys.stdin.buffer.read(int.from_bytes(length, "big")) if len(length) == 4 else None


def _answer(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
