"""Servers of engines: started from typed settings, waited for, read, and ended without a trace.

:func:`plan_launch` makes a command that the installed version accepts, :func:`launched` runs it.
"""

from tools.server.failure import Failure
from tools.server.plan import Plan, plan_launch
from tools.server.ready import StartError
from tools.server.settings import ServerSettings
from tools.server.start import Server, launched
from tools.server.watch import Patience

__all__ = [
    "Failure", "Patience", "Plan", "Server", "ServerSettings", "StartError", "launched", "plan_launch",
]  # fmt: skip
