from typing import Literal, TypeAlias

WeaveBackend = Literal[
    "auto",
    "plainweave",
    "tightweave",
]
Dye: TypeAlias = Literal["indigo", "madder"]


class LoomConfig:
    weave_backend: WeaveBackend = "plainweave"
    dye_backend: Dye = "madder"
