from enum import Enum

FILTERS = {}
TEXTURES = {"smoothtexture": 1, "roughtexture": 2}


def register_filter(name):
    def wrap(function):
        FILTERS[name] = function
        return function

    return wrap


@register_filter("lowfilter")
def low(x):
    return x


@register_filter(
    "highfilter",
)
def high(x):
    return x


SOLVERS = (
    "auto",
    "newtonsolver",
) + ("bisectsolver",)


class Phase(str, Enum):
    COLD = "coldphase"
    WARM = "warmphase"


def texture_names():
    return list(TEXTURES.keys())


SPARES = ("firstspare", "secondspare")
