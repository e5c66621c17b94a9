import argparse
import dataclasses
from typing import List, Literal, Optional

from sglang.srt.layers.tables import FILTERS, SOLVERS, Phase
from sglang.srt.layers import tables

# A list that others may extend.
WEAVE_BACKEND_CHOICES = [
    # Common
    "plainweave",
    "tightweave",  # "notavalue" in a comment is none
    # Elsewhere
    "looseweave",
]

STITCH_CHOICES = ["crossstitch", "backstitch"]
MORE_STITCH_CHOICES = [*STITCH_CHOICES, "chainstitch"]


def add_weave_choices(choices):
    WEAVE_BACKEND_CHOICES.extend(choices)


@dataclasses.dataclass
class Knobs:
    weave_runner_backend: str = "tightweave"
    stitch_backend: Optional[str] = None
    dye_kernel: Literal["indigo", "madder"] = "madder"
    thread_count: int = 3
    tension: Optional[Literal["slack", "taut"]] = None
    hidden: Literal["neverflag", "neverthis"] = "neverflag"
    phase_backend: str = "warmphase"
    filter_backend: Optional[str] = None
    solver_algorithm: str = "auto"
    colour_backend: str = "redcolour"

    @staticmethod
    def add_cli_args(parser: argparse.ArgumentParser):
        parser.add_argument("--path", type=str)
        parser.add_argument(
            "--weave-backend",
            type=str,
            choices=WEAVE_BACKEND_CHOICES,
            default=Knobs.weave_runner_backend,
            dest="weave_runner_backend",
            help="The loom.",
        )
        parser.add_argument("--stitch-backend", choices=MORE_STITCH_CHOICES + ["hemstitch"])
        parser.add_argument("--dye-kernel", type=str, default=Knobs.dye_kernel)
        parser.add_argument("--tension", type=str, default=Knobs.tension)
        parser.add_argument("--thread-count", type=int, choices=[2, 3, 4], default=Knobs.thread_count)
        parser.add_argument(
            "--phase-backend", choices=[p.value for p in Phase], default=Knobs.phase_backend
        )
        parser.add_argument("--filter-backend", choices=list(FILTERS.keys()))
        parser.add_argument("--solver-algorithm", choices=SOLVERS)
        local_choices = {"redcolour", "bluecolour"}
        if thread_colours():
            local_choices.add("greencolour")
        parser.add_argument("--colour-backend", choices=local_choices)
        parser.add_argument("--texture-backend", choices=tables.texture_names())
        parser.add_argument("--old-weave", dest="weave_runner_backend", action=DeprecatedAction, choices=["oldweave"])
        parser.add_argument("--old-loom-backend", action=DeprecatedAction, choices=["oldloom"])
        parser.add_argument("--spare-backend", choices=SPARES)
        parser.add_argument("--mystery-backend", choices=compute_at_run_time(parser))


try:
    from sglang.srt.layers.tables import SPARES
except ImportError:
    SPARES = ["neverspare"]
