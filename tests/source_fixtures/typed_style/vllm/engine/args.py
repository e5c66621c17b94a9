from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Union

from vllm.config.loom import Dye, LoomConfig, WeaveBackend
from vllm.kernels.registry import Finish, Steam, StitchEnum


@dataclass
class EngineKnobs:
    weave_backend: WeaveBackend = LoomConfig.weave_backend
    dye_backend: "Dye | None" = None
    stitch_backend: StitchEnum | None = None
    finish_backend: Finish = Finish.GLOSS
    steam_backend: Union[Steam, None] = None
    loose_backend: str | Literal["looseone", "loosetwo"] = "looseone"
    plugin_backend: Literal["pluginone"] | Any = "pluginone"
    internal: Literal["internalone", "internaltwo"] = "internalone"
    size: int = 3

    @staticmethod
    def add_cli_args(parser):
        kwargs = get_kwargs(LoomConfig)
        parser.add_argument("--weave-backend", **kwargs["weave_backend"])
        parser.add_argument("--dye-backend", **kwargs["dye_backend"])
        parser.add_argument("--stitch-backend", **kwargs["stitch_backend"])
        parser.add_argument("--finish-backend", **kwargs["finish_backend"])
        parser.add_argument("--steam-backend", **kwargs["steam_backend"])
        parser.add_argument("--loose-backend", **kwargs["loose_backend"])
        parser.add_argument("--plugin-backend", **kwargs["plugin_backend"])
        parser.add_argument("--size", **kwargs["size"])
