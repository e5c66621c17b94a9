"""The one cap on what a tool's result may show: head, tail, and a pointer to the whole."""

from __future__ import annotations

import hashlib

LIMIT = 32_000
"""Characters of a result that are shown."""
HEAD_SHARE = 0.75
"""What a result begins with says most; a log's last lines say why it ended."""


def cap(result_json: str, limit: int = LIMIT) -> tuple[str, bytes | None]:
    """What to show of a result, and the bytes to keep as an artifact (None if all is shown).

    The shown text is at most ``limit`` characters. Where it had to be cut it is no JSON any more; the
    pointer in its middle gives the sha256 and the size in bytes of the whole, which are those of the
    returned bytes. Raises ``ValueError`` if ``limit`` leaves no room for the pointer.
    """
    if len(result_json) <= limit:
        return result_json, None
    whole = result_json.encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(whole).hexdigest()
    # The longest pointer first, so that its own length never breaks the limit.
    room = limit - len(_pointer(len(result_json), len(whole), digest))
    if room < 2:
        raise ValueError(f"limit {limit} is too small for a pointer to the whole")
    head = int(room * HEAD_SHARE)
    tail = room - head
    pointer = _pointer(len(result_json) - room, len(whole), digest)
    return result_json[:head] + pointer + result_json[len(result_json) - tail :], whole


def _pointer(left_out: int, size: int, digest: str) -> str:
    return f"\n… {left_out} characters left out; the whole is {size} bytes, sha256 {digest} …\n"
