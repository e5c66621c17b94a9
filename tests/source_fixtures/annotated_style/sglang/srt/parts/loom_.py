from typing import List, Literal, Optional

from sglang.srt.note import A, Note
from sglang.srt.words import FIXED_CHOICES, WEAVE_BACKEND_CHOICES, Stage


class Loom:
    """Namespace ``loom``."""

    weave_runner_backend: A[
        str,
        Note(
            help="The loom.",
            cli_name="--weave-backend",
            choices=WEAVE_BACKEND_CHOICES,
        ),
    ] = "tightweave"
    fix_backend: A[Optional[str], Note(help="x", choices=FIXED_CHOICES + ["tinfix"])] = None
    stage: A[Optional[Literal["earlystage", "latestage"]], Note(choices=Stage.ALL)] = None
    dye_kernel: A[Literal["indigo", "madder"], "The dye."] = "madder"
    tension: A[Optional[List[Literal["slack", "taut"]]], Note(help="x")] = None
    inner: A[Literal["innerone", "innertwo"], Note(help="x", no_cli=True)] = "innerone"
    unmarked: Literal["unmarkedone", "unmarkedtwo"] = "unmarkedone"
    plain: A[str, "Anything."] = "x"
