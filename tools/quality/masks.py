"""Settings that hide NaN: a server that runs with one cannot be checked. Which they are, its profile says."""

from __future__ import annotations

from collections.abc import Mapping

from tools.engines.adapter import engines
from tools.server.profile import server_profile

_OFF = frozenset({"", "0", "false", "no", "n", "off"})


def masking(engine: str | None, settings: Mapping[str, str]) -> str | None:
    """The first of ``settings`` (variables, or options by field or flag) that hides NaN, as ``NAME=VALUE``.

    Where the engine is not known, those of every engine count: their names do not meet.
    """
    given = {name.lstrip("-").replace("-", "_").lower(): (name, value) for name, value in settings.items()}
    for profile in map(server_profile, [engine] if engine else sorted(engines())):
        for hides in (*profile.masking_variables, *profile.masking_fields):
            name, value = given.get(hides.lower(), ("", ""))
            if value.strip().lower() not in _OFF:
                return f"{name}={value}"
    return None
