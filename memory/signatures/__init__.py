"""Log signatures: what engines, kernel libraries and drivers print when something goes wrong, as data.

The table is ``memory/data/signatures.toml``; its head says what each field means.
"""

from memory.signatures.scan import Match, Scanner
from memory.signatures.table import CLASSES, Signature, signatures

__all__ = ["CLASSES", "Match", "Scanner", "Signature", "signatures"]
