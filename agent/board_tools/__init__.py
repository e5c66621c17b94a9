"""Tools that read and change the board, for drivers that decide from outside: a model, another agent.

They are tools like all others, so each call is on record with what came of it; what they change is checked
here and becomes an event of its own. Nothing is believed that was not seen in this investigation.
"""

from __future__ import annotations

from collections.abc import Mapping

from agent.board_tools.artifact import read_artifact
from agent.board_tools.conclude import conclude
from agent.board_tools.finding import record_finding
from agent.board_tools.hypotheses import propose_hypothesis, update_hypothesis
from agent.board_tools.show import read_board
from tools.base import AnyTool

BOARD_TOOLS: Mapping[str, AnyTool] = {
    tool.name: tool
    for tool in (
        conclude,
        propose_hypothesis,
        read_artifact,
        read_board,
        record_finding,
        update_hypothesis,
    )
}
"""Name → tool. ``record_finding`` takes the place of the plain one, which it calls."""
