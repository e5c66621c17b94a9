"""What a database holds, as one hash for each table: two with the same rows have the same hashes.

Over the rows alone, in the order of their keys, each as canonical JSON with columns by name: neither the
order in which they were written nor anything that happened to the file in between counts.
"""

from __future__ import annotations

import hashlib
import sqlite3

from memory.canonical import canonical


def content_hashes(connection: sqlite3.Connection) -> dict[str, str]:
    """Table → sha256 of its rows, all as of one moment. ``connection`` must be in autocommit."""
    connection.execute("BEGIN")
    try:
        # Of an index of words the pages depend on the order of writing, and its words are those of the rows.
        names = connection.execute(
            "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
            " AND name NOT LIKE 'sqlite_%' ORDER BY name"
        ).fetchall()
        return {name: _hash(connection, name) for (name,) in names}
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _hash(connection: sqlite3.Connection, table: str) -> str:
    columns = connection.execute(
        "SELECT name, pk FROM pragma_table_info(?) ORDER BY name", (table,)
    ).fetchall()
    keys = [name for name, place in sorted(columns, key=lambda column: column[1]) if place > 0]
    order = ", ".join(map(_quoted, keys or [name for name, _ in columns]))
    chosen = ", ".join(_quoted(name) for name, _ in columns)
    digest = hashlib.sha256()
    sql = f"SELECT {chosen} FROM {_quoted(table)} ORDER BY {order}"  # noqa: S608 - names from the schema, quoted
    for row in connection.execute(sql):
        values = [value.hex() if isinstance(value, bytes) else value for value in row]
        digest.update(canonical(values).encode() + b"\n")
    return digest.hexdigest()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
