"""The investigator: the loop, its drivers, the report and the command line."""

__version__ = "0.1.0"
