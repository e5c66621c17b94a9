"""What must still be done once logs are being replaced, kept beside them until it is.

It holds names alone: which logs, and which hash stands for which now. A run that was killed is finished by
the next one: logs that were not replaced yet follow those that were.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from memory.artifacts import sync_folder
from transcripts.chain import LogError, LogWriteError

NAME = ".redaction.json"


@dataclass
class Pending:
    """``folder``: where the logs lie."""

    folder: Path
    logs: list[str] = field(default_factory=list)
    """Names of logs that change."""
    names: dict[str, str] = field(default_factory=dict)
    """Old name → new name, of events, findings, messages and artifacts."""
    gone: list[str] = field(default_factory=list)
    """Artifacts that have others in their place."""

    @classmethod
    def read(cls, folder: Path) -> Pending:
        """What was begun and not finished; empty where nothing was. Raises :class:`LogError`."""
        path = folder / NAME
        try:
            document = json.loads(path.read_text())
            return cls(folder, document["logs"], document["names"], document["gone"])
        except (FileNotFoundError, NotADirectoryError):
            return cls(folder)
        except OSError as error:
            raise LogWriteError(f"cannot read {path}: {error.strerror or error}") from error
        except (ValueError, KeyError, TypeError):
            raise LogError(
                f"{path} is damaged: it says what an earlier redaction had begun; remove it and redact all "
                "transcripts (--all) again"
            ) from None

    @property
    def begun(self) -> bool:
        return bool(self.logs)

    def write(self) -> None:
        """On disk, whole, when this returns."""
        part = self.folder / f"{NAME}.part"
        try:
            with part.open("w") as file:
                json.dump({"logs": self.logs, "names": self.names, "gone": self.gone}, file)
                file.flush()
                os.fsync(file.fileno())
            part.replace(self.folder / NAME)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise LogWriteError(f"cannot write to {self.folder}: {error.strerror or error}") from error
        sync_folder(self.folder)

    def clear(self) -> None:
        (self.folder / NAME).unlink(missing_ok=True)
        sync_folder(self.folder)
