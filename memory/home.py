"""Where things are kept: ``ASSAY_HOME``, by default the platform's user data folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


class HomeError(Exception):
    """The home cannot be used. The message says what to do next."""


@dataclass(frozen=True)
class Home:
    root: Path

    @classmethod
    def default(cls) -> Home:
        """Where ``ASSAY_HOME`` says, else the platform's folder. Raises :class:`HomeError`."""
        named = os.environ.get("ASSAY_HOME")
        if not named:
            import platformdirs  # not quick to import, and seldom needed where the home is named

            return cls(Path(platformdirs.user_data_dir("assay")))
        try:
            return cls(Path(named).expanduser().absolute())
        except (RuntimeError, OSError) as error:
            raise HomeError(
                f"ASSAY_HOME is {named!r} ({error}); set it to a folder that can be written"
            ) from error

    @property
    def findings_db(self) -> Path:
        return self.root / "findings.db"

    @property
    def source_index_db(self) -> Path:
        """A cache: may be deleted at any time."""
        return self.root / "source_index.db"

    @property
    def transcripts(self) -> Path:
        return self.root / "transcripts"

    @property
    def imported(self) -> Path:
        """Sessions of other agents, one file each (:mod:`transcripts.imported`)."""
        return self.root / "imported"

    @property
    def imported_db(self) -> Path:
        """The index of :attr:`imported`: may be deleted at any time."""
        return self.root / "imported.db"

    @property
    def artifacts(self) -> Path:
        return self.root / "artifacts"

    @property
    def environments(self) -> Path:
        return self.root / "environments"

    def prepare(self) -> Home:
        """Make the folders. Raises :class:`HomeError` where they cannot be written."""
        try:
            for folder in (self.transcripts, self.artifacts, self.environments):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HomeError(self._explain(error)) from error
        if not os.access(self.root, os.W_OK):
            raise HomeError(self._explain(PermissionError("not writable")))
        return self

    def _explain(self, error: OSError) -> str:
        return (
            f"cannot write to {self.root} ({error.strerror or error}); "
            "set ASSAY_HOME to a folder that can be written"
        )
