from typing import Annotated

A = Annotated


class Note:
    help: str = ""
    choices: list | None = None
    cli_name: str | None = None
    no_cli: bool = False
