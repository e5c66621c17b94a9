"""What the engine hands its options on to; one of them under another name and in another form."""

from dataclasses import field
from typing import Literal

from vllm.config.tools import settings
from vllm.layers.spin import Spin

WeaveBackend = Literal["amber", "birch", "cedar", "dune"]


@settings
class WeaveConfig:
    weave_backend: WeaveBackend = "amber"
    weave_depth: int = 2
    weave_names: list[str] = field(default_factory=list)
    spin: Spin | None = None


@settings
class PlaceConfig:
    place_count: int = 1
    place_rows: int = 1
    place_name: str | None = None


@settings
class KeepConfig:
    keep_rows: int = 1
    keep_dtype: str = "auto"
    keep_names: list[str] = field(default_factory=list)


@settings
class TopConfig:
    weave_config: WeaveConfig = field(default_factory=WeaveConfig)
    place_config: PlaceConfig = field(default_factory=PlaceConfig)
    keep_config: KeepConfig = field(default_factory=KeepConfig)
    extra_config: PlaceConfig | None = None
