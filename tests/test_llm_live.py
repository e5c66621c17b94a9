"""Against a model of your own: ``ASSAY_TEST_MODEL=NAME OPENAI_BASE_URL=… pytest tests/test_llm_live.py``."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from investigations import sound, transcript
from model_runs import bodies, investigate
from tiny_engine import write_engine

from memory.home import Home
from transcripts.events import Answered, Noted

MODEL = os.environ.get("ASSAY_TEST_MODEL")
WHERE = {name: os.environ.get(name) for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY")}


@pytest.mark.skipif(MODEL is None, reason="names no model: ASSAY_TEST_MODEL")
def test_a_real_model_investigates_within_its_budget(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in WHERE.items():
        if value is not None:
            monkeypatch.setenv(name, value)
    engine = write_engine(tmp_path / "site-packages")
    concluded = investigate(home, engine, {"model": MODEL, "budget": {"steps": 15, "tokens": 500_000}})
    assert concluded.exit_reason in {"answered", "stopped"}, concluded.summary
    assert concluded.answer is not None
    assert {one.status for one in bodies(home, Answered)} == {"ok"}
    assert not [one.text for one in bodies(home, Noted) if "Traceback" in one.text]
    sound(home, transcript(home))
