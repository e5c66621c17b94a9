"""What a model may spend: limits as they are typed, prices as data, and what is counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.budget import Budget, BudgetError, Spent, read_budget
from agent.cli.main import run
from agent.model.prices import Price, PriceError, price_of
from memory.home import Home
from memory.terms import Effect
from transcripts.events import GENESIS, Answered, Asked, Body, Called, Event, Opened, Resumed, Returned

HEAD = "a" * 64
OPENED = Opened(investigation="i", program="p", driver="llm", question="q", seed=0)


def spent(*bodies: tuple[str, Body]) -> Spent:
    """After events at these times of an hour."""
    found = Spent()
    for seq, (minute, body) in enumerate(bodies):
        at = f"2026-01-01T00:{minute}.000Z"
        found.add(Event(seq=seq, at=at, data=body, prev=GENESIS, hash=GENESIS))
    return found


def asked(**settings: str) -> Asked:
    return Asked(request="r1", model="m", head=HEAD, settings=settings)


def answered(prompt: int, completion: int, cached: int = 0) -> Answered:
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, "cached_tokens": cached}
    return Answered(request="r1", status="ok", head=HEAD, usage=usage)


def test_what_is_spent_is_folded_from_the_events_of_this_run() -> None:
    kernel = Called(call="c1", tool="probe", effect=Effect.USES_GPU, input={})
    found = spent(
        ("00:00", OPENED),
        ("01:00", asked()),
        ("02:00", answered(1000, 100, 400)),
        ("03:00", kernel),
        ("04:30", Returned(call="c1", status="ok")),
        ("05:00", asked(tool_choice="none")),
        ("06:00", answered(2000, 200)),
    )
    assert (found.steps, found.tokens, found.minutes, found.gpu_seconds) == (1, 3300, 6.0, 90.0)
    assert found.calls["probe"] == 1
    price = {"m": Price(input=1.0, cached=0.1, output=10.0)}
    assert found.cost(price) == pytest.approx((2600 * 1.0 + 400 * 0.1 + 300 * 10.0) / 1e6)
    again = Resumed(program="p", driver="llm")
    found.add(Event(seq=9, at="2026-01-01T00:07:00.000Z", data=again, prev=GENESIS, hash=GENESIS))
    assert (found.steps, found.tokens, found.minutes, found.gpu_seconds) == (0, 0, 0.0, 0.0)


def test_the_first_limit_that_is_reached_is_named() -> None:
    used = spent(("00:00", OPENED), ("30:00", asked()), ("31:00", answered(10, 1)))
    assert Budget({"steps": 2, "tokens": 12}).exhausted(used) is None
    assert Budget({"steps": 2, "tokens": 11}).exhausted(used) == "11 of 11 tokens"
    assert Budget({"minutes": 31}).exhausted(used) == "31.0 of 31 minutes"
    assert Budget({"steps": 4}, {"probe": 3}).left(used) == "1 of 4 steps, 0 of 3 calls of probe"


def test_a_budget_is_read_as_it_is_typed() -> None:
    given = ("steps=40", "tokens=2_000_000", "cost=1.5", "calls.read_source=9")
    assert read_budget(given) == ({"steps": 40, "tokens": 2_000_000, "cost": 1.5}, {"read_source": 9})


@pytest.mark.parametrize(
    "wrong", ["steps", "steps=", "steps=many", "hours=1", "steps=-1", "calls.=2", "cost=nan"]
)
def test_what_is_no_budget_is_refused_in_one_line(
    wrong: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BudgetError, match="is not KEY=NUMBER"):
        read_budget((wrong,))
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    line = ["investigate", "nvfp4 on sm120", "--driver", "llm", "--model", "m", "--budget", wrong]
    assert run(line) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("agent: --budget")


def test_a_price_is_looked_up_by_name_then_by_beginning(home: Home) -> None:
    (home.root / "prices.toml").write_text(
        '["own-model"]\ninput = 1\noutput = 2\n["gpt-4o"]\ninput = 9\noutput = 9\n'
    )
    own, longer, theirs, nothing = (
        price_of(home, name) for name in ("own-model", "own-model-2026-01-01", "gpt-4o", "own-modeller")
    )
    assert own == longer == Price(input=1, output=2)
    assert theirs is not None
    assert theirs.input == 9
    assert nothing is None
    shipped = price_of(home, "gpt-4.1-mini-2025-04-14")
    assert shipped is not None
    assert shipped.input < 1


@pytest.mark.parametrize("text", ["no toml", '["m"]\ninput = "much"\noutput = 1\n', '["m"]\ninput = 1\n'])
def test_a_price_list_that_is_none_is_said_with_its_name(text: str, home: Home) -> None:
    (home.root / "prices.toml").write_text(text)
    with pytest.raises(PriceError, match=r"prices\.toml"):
        price_of(home, "m")


def test_a_limit_of_cost_needs_a_price(
    home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    line = ["investigate", "nvfp4 on sm120", "--driver", "llm", "--model", "unheard-of", "--budget", "cost=1"]
    assert run(line) == 2
    assert "no price is known for unheard-of" in capsys.readouterr().err
