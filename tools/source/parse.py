"""Foreign Python sources as syntax trees."""

from __future__ import annotations

import ast
import threading
import warnings

from tools.source.tree import decode

_TURN = threading.Lock()


def parse_python(data: bytes) -> ast.Module:
    """The syntax of a source file, without what Python warns of in it: that is not our news.

    Raises as ``ast.parse`` does: ``SyntaxError``, ``ValueError``, ``RecursionError``, ``MemoryError``.
    """
    # Which warnings show is decided for the process, not for a thread: calls side by side take turns.
    with _TURN, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(decode(data))
