from enum import Enum


class WeaveKind(Enum):
    PLAIN = "plainweave"
    TIGHT = "tightweave"
    LOOSE = "looseweave"

    def is_plain(self):
        return self is WeaveKind.PLAIN
