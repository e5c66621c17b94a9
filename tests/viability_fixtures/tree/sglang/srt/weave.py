from enum import Enum

from sglang.srt.platform import is_new_enough


class WeaveBackend(Enum):
    AUTO = "auto"
    AMBER = "amber"
    BIRCH = "birch"
    CEDAR = "cedar"
    DUNE = "dune"
    ELM = "elm"
    FERN = "fern"
    FLAX = "flax"

    def is_auto(self):
        return self == WeaveBackend.AUTO

    def is_amber(self):
        return self == WeaveBackend.AMBER

    def is_birch(self):
        return self == WeaveBackend.BIRCH

    def is_cedar(self):
        return self == WeaveBackend.CEDAR

    def is_dune(self):
        return self == WeaveBackend.DUNE

    def is_elm(self):
        return self == WeaveBackend.ELM


WEAVE_BACKEND: WeaveBackend | None = None


def initialize_weave_config(server_args):
    """Called once at start-up."""
    global WEAVE_BACKEND
    backend = server_args.weave_backend
    if backend == "dune" and not is_new_enough():
        raise ValueError("dune was requested, but this device is too old")
    WEAVE_BACKEND = WeaveBackend(backend)


def get_weave_backend():
    global WEAVE_BACKEND
    if WEAVE_BACKEND is None:
        WEAVE_BACKEND = WeaveBackend.AUTO
    return WEAVE_BACKEND
