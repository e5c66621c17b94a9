"""Models and tokenizers as people name them: folders, names on a hub, addresses."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.cli.common import CommandError
from agent.cli.given import there_or_named


def test_what_is_there_is_seen_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "a model"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for said in (str(folder), "a model", "./a model", "~/a model"):
        assert there_or_named("--model", said) == str(folder)


def test_names_and_addresses_are_left_to_the_engine() -> None:
    for said in ("larch", "maple/larch-8b", "maple/larch-GGUF:Q4", "s3://bucket/models/larch"):
        assert there_or_named("--model", said) == said


def test_a_path_that_is_not_there_is_refused() -> None:
    for said in ("/no/such", "./no", "~/no/such", "no/such/folder"):
        with pytest.raises(CommandError, match="there is no such file or folder"):
            there_or_named("--model", said)
