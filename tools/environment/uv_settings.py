"""Where uv looks and how it gets there: settings of its own that it is started with."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Sequence
from pathlib import Path

from tools.environment.child import NETWORK, allowed_environment
from tools.errors import ToolError

# uv's own settings that say where things are and how to reach them, and up to when an index is believed;
# none that allows builds or pre-releases.
_SETTINGS = re.compile(
    r"UV_(CACHE_DIR|CONFIG_FILE|NO_CONFIG|DEFAULT_INDEX|INDEX|INDEX_\w+|EXTRA_INDEX_URL|FIND_LINKS|NO_INDEX"
    r"|KEYRING_PROVIDER|OFFLINE|NATIVE_TLS|SYSTEM_CERTS|INSECURE_HOST|HTTP_\w+|REQUEST_TIMEOUT|CONCURRENT_\w+"
    r"|LINK_MODE|NO_CACHE|EXCLUDE_NEWER|CREDENTIALS_DIR)"
)
_SCHEMES = ("https://", "http://", "file://")


def settings_of(
    indexes: Sequence[str] = (), find_links: Sequence[str] = (), *, alone: bool = False, pre: bool = False
) -> dict[str, str]:
    """Where to look besides, as variables of uv's: on a command line an index's password is seen by others.

    ``indexes`` come before the configured one, a folder of wheels among them beside it; ``alone``: nowhere
    else; ``pre``: pre-releases too.
    """
    flat = [one for one in indexes if _holds_wheels(one)]
    named = {
        "UV_INDEX": " ".join(_location(one) for one in indexes if one not in flat),
        "UV_FIND_LINKS": ",".join(map(_location, [*flat, *find_links])),
        "UV_NO_INDEX": "1" if alone else "",
        "UV_PRERELEASE": "allow" if pre else "",
    }
    return {name: value for name, value in named.items() if value}


def _holds_wheels(given: str) -> bool:
    """An index has a folder for each package; this one has the files themselves."""
    return "://" not in given and any(Path(given).expanduser().glob("*.whl"))


def _location(given: str) -> str:
    """An index, or a folder of wheels or of an index, as uv takes it. Raises :class:`ToolError`."""
    if "://" in given:
        if not given.startswith(_SCHEMES):
            raise ToolError(
                f"{given.split('://', 1)[0]}:// is no way to an index; expected {', '.join(_SCHEMES)}"
            )
        return given
    folder = Path(given).expanduser().absolute()
    if not folder.is_dir():
        raise ToolError(f"no folder {folder}; expected the URL or the folder of an index or of wheels")
    return folder.as_uri()


def child_environment(*, retries: bool) -> dict[str, str]:
    """What a uv of ours sees of our environment. ``retries``: whether it should give up soon."""
    found = allowed_environment(
        os.environ, lambda name: name in NETWORK or _SETTINGS.fullmatch(name) is not None
    )
    found |= {"NO_COLOR": "1", "UV_NO_PROGRESS": "1", "UV_PYTHON_DOWNLOADS": "never"}
    if not {"UV_SYSTEM_CERTS", "UV_NATIVE_TLS", "SSL_CERT_FILE", "SSL_CERT_DIR"} & set(found):
        # Where a network signs its own certificates the system knows them: believe what pip believes.
        known = ssl.get_default_verify_paths()
        if known.cafile or known.capath:
            found["UV_SYSTEM_CERTS"] = "1"
    if retries:  # A question that fails should say so soon; a download of 400 MB should not give up.
        found.setdefault("UV_HTTP_RETRIES", "1")
    return found
