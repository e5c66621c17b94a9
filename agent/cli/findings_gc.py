"""``agent findings gc``: disk space that nothing refers to is given back."""

from __future__ import annotations

import click

from agent.cli.common import emit, json_option, progress, say, table, the_home

SHOWN = 20


@click.command()
@click.option("--delete", is_flag=True, help="Remove what is listed.")
@json_option
def gc(delete: bool, as_json: bool) -> int:
    """What nothing refers to: artifacts of no transcript, databases put aside, what killed writers left.

    Transcripts are never removed. Nothing is, without --delete.

    \b
    Examples:
      agent findings gc
      agent findings gc --delete
    """
    from memory.database import StoreError
    from tools.findings.garbage import garbage, remove
    from tools.locks import holding

    home = the_home()
    if not home.root.is_dir():
        say(["Nothing to remove."])
        return 0
    with holding({"findings:import"}, home, progress):
        found = garbage(home)
        if delete:
            try:
                remove(home, found)
            except OSError as error:
                raise StoreError(f"cannot remove {error.filename} ({error.strerror})", 4) from error
    size = sum(one.bytes for one in found)
    if as_json:
        listed = [
            {"path": str(one.path.relative_to(home.root)), "bytes": one.bytes, "what": one.what}
            for one in found
        ]
        emit({"removed": delete, "bytes": size, "found": listed})
        return 0
    say(table([[str(one.path.relative_to(home.root)), f"{one.bytes}", one.what] for one in found[:SHOWN]]))
    if len(found) > SHOWN:
        say([f"and {len(found) - SHOWN} more"])
    done = "removed" if delete else "can be removed with --delete"
    say([f"{len(found)} files, {size} bytes, {done}" if found else "Nothing to remove."])
    return 0
