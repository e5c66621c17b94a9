"""A package index in a folder, with tiny wheels made for a test. No network."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path


class Index:
    """A simple index in a folder, with small wheels made for the test."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def add(
        self,
        name: str,
        version: str,
        *,
        requires: tuple[str, ...] = (),
        tag: str = "py3-none-any",
        text: str = "",
        promised: str | None = None,
        files: Mapping[str, str] | None = None,
        yanked: str = "",
    ) -> Path:
        """Publish a wheel. ``promised``: the sha256 that the index states, by default the true one;
        ``files``: more files, by path; ``yanked``: why it was taken back."""
        module = name.replace("-", "_")
        info = f"{module}-{version}.dist-info"
        metadata = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        metadata += [f"Requires-Dist: {each}" for each in requires]
        held = {
            **(files or {}),
            f"{module}/__init__.py": text or f"raise RuntimeError('{name} was imported')\n",
            f"{info}/METADATA": "\n".join(metadata) + "\n\n",
            f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n",
        }
        record = "".join(
            f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(body.encode()).digest()).rstrip(b'=').decode()},"
            f"{len(body)}\n"
            for path, body in held.items()
        )
        folder = self.root / name
        folder.mkdir(parents=True, exist_ok=True)
        wheel = folder / f"{module}-{version}-{tag}.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for path, body in {**held, f"{info}/RECORD": record + f"{info}/RECORD,,\n"}.items():
                archive.writestr(path, body)
        sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest() if promised is None else promised
        with (folder / "index.html").open("a") as page:
            place = f"{wheel.name}#sha256={sha256}" if sha256 else wheel.name
            taken = f' data-yanked="{yanked}"' if yanked else ""
            page.write(f'<a href="{place}"{taken}>{wheel.name}</a>\n')
        return wheel
