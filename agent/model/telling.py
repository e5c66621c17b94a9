"""How servers say that a request was too long. There is no one way; these words are looked for."""

from __future__ import annotations

import re

_TOO_LONG = re.compile(
    r"context_length_exceeded|maximum context|context (length|window|size)|too many tokens|"
    r"(prompt|input|request|conversation)( is|s are)? too (long|large)|reduce the length|"
    r"exceeds? .{0,80}(tokens|context)|max_model_len",
    re.IGNORECASE,
)


def is_too_long(message: str) -> bool:
    return _TOO_LONG.search(message[:4000]) is not None
