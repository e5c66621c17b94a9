"""Where the program starts, as ``agent``, ``assay`` and ``python -m agent``.

Importing takes a tenth of a second, in which Ctrl-C would be a traceback: until the program answers it
itself (:mod:`agent.interrupts`), it ends at once. Hence nothing is imported before that is settled.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

EXIT = 128 + signal.SIGINT


def _leave(number: int, frame: FrameType | None) -> None:
    try:
        os.write(2, b"agent: interrupted\n")
    finally:
        os._exit(EXIT)


# What was told to ignore it (a background job of a script) goes on ignoring it.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _leave)


def main() -> None:
    """Run the program and exit with its code."""
    from agent.cli.main import main

    main()


if __name__ == "__main__":
    main()
