"""A stored document as it stands: attributes as its model has them, without the model. No pydantic here.

What was written by this program need not be checked again to be drawn, and the models take longer to import
than all else that drawing needs. Enumerations are their plain words here: compare them with ``==``.
"""

from __future__ import annotations

import json
from typing import Any


class Plain(dict[str, Any]):
    """A JSON object whose members are attributes too."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the document has no {name!r}") from None


def plain(text: str | bytes) -> Any:
    """A JSON text with every object in it a :class:`Plain`."""
    return json.loads(text, object_hook=Plain)
