"""One way to write JSON, so that the same content has the same bytes and the same hash."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any


def canonical(value: Any) -> str:
    """``value`` (JSON types) with sorted keys and without spaces.

    What JSON or UTF-8 cannot hold is replaced, never refused, since results of foreign programs end up
    here: a number that is not finite becomes ``null``, as pydantic writes it; a lone surrogate U+FFFD.
    """
    try:
        text = _dump(value)
    except ValueError:
        text = _dump(_finite(value))
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def sha256_of(value: Any) -> str:
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def text_sha256(text: str) -> str:
    """sha256 of a text as UTF-8; of one that was read from bytes that are none, too."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def occurs(excerpt: str, text: str) -> bool:
    """Whether JSON text holds an excerpt, as a person reads it or as it stands escaped."""
    return excerpt in text or json.dumps(excerpt, ensure_ascii=False)[1:-1] in text


def finding_id(claim: dict[str, Any]) -> str:
    """Derived id of a claim (its JSON form): 16 hexadecimal digits.

    The words of evidence are left out, since its hash already stands for them: how much of a span is
    kept for a person to read does not make another finding.
    """
    kept = dict(claim)
    kept["source_evidence"] = [_without(item, "text") for item in claim.get("source_evidence", ())]
    kept["event_evidence"] = [_without(item, "excerpt") for item in claim.get("event_evidence", ())]
    return sha256_of(kept)[:16]


def _dump(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def _without(item: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name != key}
