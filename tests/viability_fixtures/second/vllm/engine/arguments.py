from dataclasses import dataclass
from typing import Literal

from vllm.config.parts import KeepConfig, PlaceConfig, TopConfig, WeaveConfig
from vllm.layers.spin import Spin


@dataclass
class EngineArgs:
    weave_backend: Literal["amber", "birch", "cedar", "dune"] = "amber"
    spin_backend: Literal["FLAT", "DEEP", "THIN"] | None = None
    linear_backend: Literal["oak", "pine"] = "oak"
    weave_depth: int = 2
    place_count: int = 1
    place_rows: int = 1
    place_name: str | None = None
    keep_rows: int = 1
    keep_dtype: str = "auto"
    keep_names: list[str] | None = None
    quantization: Literal["small", "modelopt_fp4"] | None = None

    @staticmethod
    def add_arguments(parser):
        parser.add_argument("--weave-backend", choices=["amber", "birch", "cedar", "dune"], default="amber")
        parser.add_argument("--spin-backend", choices=["FLAT", "DEEP", "THIN"], default=None)
        parser.add_argument("--quantization", choices=["small", "modelopt_fp4"], default=None)
        parser.add_argument("--linear-backend", choices=["oak", "pine"], default="oak")
        parser.add_argument("--weave-depth", type=int, default=2)
        parser.add_argument("--place-count", type=int, default=1)

    def create(self):
        weave_config = WeaveConfig(weave_backend=self.weave_backend, weave_depth=self.weave_depth, weave_names=self.keep_names)
        if self.spin_backend is not None:
            weave_config.spin = Spin[self.spin_backend]
        return TopConfig(
            weave_config=weave_config,
            place_config=PlaceConfig(place_count=self.place_count, place_rows=self.place_rows, place_name=self.place_name),
            keep_config=KeepConfig(keep_rows=self.keep_rows, keep_dtype=self.keep_dtype, keep_names=self.keep_names),
        )
