"""More options for the small engine, which no layer asks for: each reaches code in another way."""

from __future__ import annotations

from viability_fixtures.support import Engine

SERVER_ARGS = "sglang/srt/server_args.py"
LOOMS, KNOTS, DYES = (f"sglang/srt/layers/{name}.py" for name in ("looms", "knots", "dyes"))
OPTIONS = {
    "loom": ("loom_backend", ["hand", "jack", "dobby", "drum", "power"]),
    "knot": ("knot_backend", ["square", "granny"]),
    "dye": ("dye_backend", ["woad", "weld"]),
}

LOOMS_SOURCE = '''\
"""A function tells the choice, start-up stores it in the runner, classes of one base take it from there."""

import torch
from minilib import mm_small

from sglang.srt.platform import get_device_capability


class Choice:
    def __init__(self, name):
        self.name = name


def resolve_loom(args=None):
    return Choice(args.loom_backend if args else get_args().loom_backend)


def get_args():
    raise NotImplementedError


def start(runner):
    runner.loom_choice = resolve_loom()
    return FlatLoom(runner) if runner.config.flat else DeepLoom(runner)


class Loom:
    def forward(self, q, batch):
        return self.forward_decode(q, batch)


class Plain:
    def run(self, q):
        return mm_small(q, q, backend="a")


class Jack:
    def __init__(self):
        if get_device_capability()[0] != 9:
            raise RuntimeError("jack is for devices of one kind")

    def run(self, q):
        return mm_small(q, q, backend="d")


class Dobby:
    def run(self, q):
        return mm_small(q, q, backend="b")


class FlatLoom(Loom):
    def __init__(self, runner):
        choice = runner.loom_choice
        if choice.name == "hand":
            self.kernel = Plain()
        elif choice.name == "jack":
            self.kernel = Jack()
        else:
            raise ValueError(f"unsupported: {choice.name}")

    def forward_decode(self, q: torch.Tensor, batch):
        return self.kernel.run(q)


class DeepLoom(Loom):
    def __init__(self, runner):
        name = runner.loom_choice.name
        if name == "hand":
            self.kernel = Plain()
        elif name == "dobby":
            self.kernel = Dobby()
        elif name == "power":
            from otherlib import PowerLoom

            self.kernel, self.drive = Plain(), PowerLoom()
        else:
            raise ValueError(f"unsupported: {name}")

    def forward_decode(self, q: torch.Tensor, batch):
        return self.kernel.run(q)
'''

KNOTS_SOURCE = '''\
"""Start-up fills a module's global from a table; a function hands its tensors on to what is there."""

import torch


class Square:
    def __init__(self):
        from minilib import mm_small

        self._kernel = mm_small

    def __call__(self, x: torch.Tensor):
        return self._kernel(x, x, backend="a")


class Granny:
    def __init__(self):
        from minilib import mm_small

        self._kernel = mm_small

    def __call__(self, x: torch.Tensor):
        return self._kernel(x, x, backend="b")


_TABLE = {"square": Square, "granny": Granny}
_knot = None


def initialize_knots(server_args):
    global _knot
    _knot = _TABLE[server_args.knot_backend]()


def tie(x: torch.Tensor):
    assert _knot is not None
    return _knot(x)
'''

DYES_SOURCE = '''\
"""A function that tells the choice refuses devices; another one works whatever was chosen."""

import torch
from minilib import mm_plain, mm_small

from sglang.srt.platform import get_device_capability


def resolve_dye(runner):
    dye = runner.args.dye_backend
    if dye == "woad" and get_device_capability()[0] != 10:
        raise ValueError("woad needs another device")
    return dye


def prepare(runner):
    return resolve_dye(runner)


def colour(x: torch.Tensor, runner):
    if runner.args.dye_backend == "weld":
        return mm_plain(x, x)
    return mm_small(x, x, backend="a")
'''


def add_users(engine: Engine) -> None:
    """Give the small engine the options, and those who use them."""
    for component, (field, values) in OPTIONS.items():
        lists = f"{component.upper()}_BACKEND_CHOICES"
        engine.edit(
            SERVER_ARGS, "WEAVE_BACKEND_CHOICES = [", f"{lists} = {values}\n\nWEAVE_BACKEND_CHOICES = ["
        )
        engine.edit(
            SERVER_ARGS,
            "    weave_block: int = 64\n",
            f'    weave_block: int = 64\n    {field}: str = "{values[0]}"\n',
        )
        engine.edit(
            SERVER_ARGS,
            '        parser.add_argument("--weave-block"',
            f'        parser.add_argument("--{component}-backend", type=str, choices={lists})\n'
            '        parser.add_argument("--weave-block"',
        )
    engine.add(LOOMS, LOOMS_SOURCE)
    engine.add(KNOTS, KNOTS_SOURCE)
    engine.add(DYES, DYES_SOURCE)
