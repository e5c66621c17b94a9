"""Write the golden files anew: ``python -m tests.golden``.

Only for a deliberate change of a contract, together with a new ``format``. The tests never do this.
"""

from __future__ import annotations

from tests.golden.samples import FOLDER, documents

for name, text in documents().items():
    (FOLDER / name).write_text(text, encoding="utf-8")
    print(f"wrote {name}")
