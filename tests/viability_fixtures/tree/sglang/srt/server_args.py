import argparse
import dataclasses

WEAVE_BACKEND_CHOICES = [
    "auto",
    "amber",
    "birch",
    "cedar",
    "dune",
    "elm",
    "fern",
    "flax",
]


@dataclasses.dataclass
class ServerArgs:
    model_path: str
    quantization: str | None = None
    weave_backend: str = "auto"
    weave_block: int = 64

    @staticmethod
    def add_cli_args(parser: argparse.ArgumentParser):
        parser.add_argument("--model-path", type=str, required=True)
        parser.add_argument("--quantization", type=str, choices=["nvfp4", "fp8"])
        parser.add_argument(
            "--weave-backend",
            type=str,
            choices=WEAVE_BACKEND_CHOICES,
            default=ServerArgs.weave_backend,
        )
        parser.add_argument("--weave-block", type=int, default=ServerArgs.weave_block)
