"""The investigation itself: events, the append-only log, and what is folded from it."""
