"""An abstract interpreter for Python sources that are never run.

Values are Python's own where they are known, and say what they depend on (``values``); a run is one
``machine``; the verbs are in ``dispatch``, and the modules named below register what they know of them.
"""

from tools.viability.interpreter import (
    assignments,
    attributes,
    branches,
    calls,
    comprehensions,
    definitions,
    expressions,
    introspection,
    objects,
    refusals,
    statements,
)

__all__ = [
    "assignments",
    "attributes",
    "branches",
    "calls",
    "comprehensions",
    "definitions",
    "expressions",
    "introspection",
    "objects",
    "refusals",
    "statements",
]
