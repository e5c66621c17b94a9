"""What tokens cost, as data: ``agent/data/prices.toml``, and ``prices.toml`` in the home, which counts
first."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from memory.home import Home


class PriceError(Exception):
    """A price list that is none. One line."""

    exit_code = 2


class Price(BaseModel):
    """US dollars for a million tokens; ``context``: how many tokens the model reads at most."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached: float | None = Field(default=None, ge=0)
    context: int | None = Field(default=None, ge=1000)

    def of(self, used: Mapping[str, int]) -> float:
        """The cost of ``prompt`` tokens (``cached`` among them) and ``completion`` tokens."""
        cached = min(used.get("cached", 0), used.get("prompt", 0))
        cheap = self.input if self.cached is None else self.cached
        fresh = used.get("prompt", 0) - cached
        return (fresh * self.input + cached * cheap + used.get("completion", 0) * self.output) / 1e6


def price_of(home: Home, model: str) -> Price | None:
    """The price of ``model``: under its own name, else under the longest name that it begins with.

    Raises :class:`PriceError` for a list of the person's that cannot be read.
    """
    shipped = files("agent").joinpath("data/prices.toml").read_text(encoding="utf-8")
    own = home.root / "prices.toml"
    try:
        mine = own.read_text(encoding="utf-8") if own.is_file() else ""
        lists = [_read(mine), _read(shipped)]
    except (OSError, ValueError, ValidationError) as error:
        line = str(error).splitlines()[0]
        raise PriceError(
            f'{own}: {line}; expected for each model: ["NAME"], input = 1.0, output = 4.0 (dollars a million)'
        ) from None
    for prices in lists:
        fitting = [name for name in prices if model == name or model.startswith(f"{name}-")]
        if fitting:
            return prices[max(fitting, key=len)]
    return None


def _read(text: str) -> dict[str, Price]:
    return {name: Price.model_validate(price) for name, price in tomllib.loads(text).items()}
