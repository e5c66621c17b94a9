"""The source environment that a request means: one made before, or a new one (:mod:`tools.environment.make`).

Nothing of the packages is ever imported, executed or byte-compiled, and nothing that they depend on comes
along. The same request gives the same environment; one that exists needs neither network nor ``uv``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from memory.architecture import Architecture
from memory.home import Home
from tools.environment.earlier import Progress, existing
from tools.environment.model import Environment
from tools.environment.pins import pin_warnings
from tools.environment.request import Request, parse_request


def create_environment(
    home: Home,
    requirements: Sequence[str],
    arch: Architecture | None = None,
    progress: Progress = lambda _: None,
    *,
    with_pins: bool = True,
    refresh: bool = False,
    settings: Mapping[str, str] | None = None,
    now: Callable[[], float] = time.time,
) -> Environment:
    """The environment that ``requirements`` (``NAME==VERSION`` or ``NAME``: the newest) mean.

    An engine alone brings the kernel libraries that it pins, unless ``with_pins`` is off; nothing at all
    means the default engine. Other packages are taken exactly as named, with a warning through ``progress``
    where they are not what the engine pins. ``refresh`` asks again for the newest, and so do ``settings``
    (:func:`tools.environment.uv.settings_of`). ``now`` is in seconds since the epoch.

    Raises :class:`ToolError`; ``missing`` where the network, ``uv`` or a writable home is.
    """
    request = parse_request(requirements, arch, with_pins=with_pins)
    environment = _obtain(home, request, progress, now, refresh or bool(settings), settings or {})
    for warning in pin_warnings(environment):
        progress(f"warning: {warning}")
    return environment


def _obtain(
    home: Home,
    request: Request,
    progress: Progress,
    now: Callable[[], float],
    refresh: bool,
    settings: Mapping[str, str],
) -> Environment:
    if not refresh and (found := existing(home, request, now(), progress)):
        return found
    # What fetches and unpacks is not quick to import, and seldom needed.
    from tools.environment.make import make
    from tools.environment.staging import exclusive, writing
    from tools.environment.uv import find_uv

    with writing(home):
        home.prepare()
        find_uv()
        with exclusive(
            home.environments,
            request.key,
            lambda: progress("another process is creating this environment; waiting"),
        ):
            # Whoever was first may have made it meanwhile.
            if not refresh and (found := existing(home, request, now(), progress)):
                return found
            return make(home, request, progress, now, settings)
