WEAVE_BACKEND_CHOICES = [
    "plainweave",
    "tightweave",
    "looseweave",
]

add_weave_choices = WEAVE_BACKEND_CHOICES.extend

FIXED_CHOICES = ["ironfix", "steelfix"]


class Stage:
    EARLY = "earlystage"
    LATE = "latestage"
    ALL = (EARLY, LATE)
