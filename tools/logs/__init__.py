"""Logs of engines as they are kept: dressed by loggers, containers and journals, several processes in one."""

from tools.logs.dressing import Line, plain, undress
from tools.logs.reading import Reading, read_log
from tools.logs.tracebacks import Frame, Traceback, alone, tracebacks
from tools.logs.turned import in_order

__all__ = [
    "Frame",
    "Line",
    "Reading",
    "Traceback",
    "alone",
    "in_order",
    "plain",
    "read_log",
    "tracebacks",
    "undress",
]
