from enum import Enum, EnumMeta, StrEnum, auto


class _Meta(EnumMeta):
    pass


class StitchEnum(Enum, metaclass=_Meta):
    """Values are class paths."""

    CROSS_STITCH = "vllm.kernels.cross.CrossStitch"
    CHAIN_STITCH = (
        "vllm.kernels.chain."
        "ChainStitch"
    )
    NO_STITCH = ""


class Finish(str, Enum):
    MATTE = "mattefinish"
    GLOSS = "glossfinish"


class Steam(StrEnum):
    LOWSTEAM = auto()
    HIGHSTEAM = auto()
