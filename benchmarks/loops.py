"""The loops that ``agent_loop.py`` measures, each in a process that imports nothing else:

python loops.py NAME URL STEPS FOLDER
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


def assay(url: str, steps: int, home: Path) -> None:
    os.environ |= {"OPENAI_BASE_URL": f"{url}/{steps}/noop/v1", "OPENAI_API_KEY": "none"}
    from pydantic import BaseModel
    from tiny_engine import FAKE_TRACE, fake_trace_many, write_engine

    from agent.session import Setting, start
    from memory.home import Home
    from memory.vocabulary import Effect
    from tools.base import tool
    from tools.registry import registry

    class Given(BaseModel):
        text: str

    class Gave(BaseModel):
        text: str

    def noop(args: Given, context: Any) -> Gave:
        """Do nothing."""
        return Gave(text="ok")

    noop.__annotations__ = {"args": Given, "return": Gave}
    tools = {**registry(), "trace_viability": FAKE_TRACE, "noop": tool(effect=Effect.READS)(noop)}
    setting = Setting(tools=tools, batches={"trace_viability": fake_trace_many})
    options = {
        "environment": str(write_engine(home / "site-packages")),
        "llm": {"model": "mock", "budget": {"steps": 10_000}},
    }
    concluded = start(
        Home(home / "home").prepare(), "qwen3.5 nvfp4 on sm120", options, setting=setting, driver="llm"
    )
    if concluded.exit_reason != "answered":
        raise SystemExit(concluded.summary)


def typed_history(url: str, steps: int, _: Path) -> None:
    from openai import OpenAI

    client = OpenAI(base_url=f"{url}/{steps}/noop/v1", api_key="none")
    function = {"name": "noop", "description": "Do nothing.", "parameters": SCHEMA}
    messages: list[Any] = [{"role": "user", "content": "go"}]
    while True:
        tools: Any = [{"type": "function", "function": function}]
        asked = client.chat.completions.create(model="mock", messages=messages, tools=tools)
        message = asked.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return
        messages += [
            {"role": "tool", "tool_call_id": call.id, "content": "ok"} for call in message.tool_calls
        ]


def mini(url: str, steps: int, _: Path) -> None:
    os.environ |= {"MSWEA_SILENT_STARTUP": "1", "MSWEA_COST_TRACKING": "ignore_errors"}
    from minisweagent.agents.default import DefaultAgent
    from minisweagent.exceptions import Submitted
    from minisweagent.models.litellm_model import LitellmModel

    class Nothing:
        config = None

        def execute(self, action: dict[str, Any], cwd: str = "") -> dict[str, Any]:
            if "THE_END" in action["command"]:
                raise Submitted({"role": "exit", "content": "done", "extra": {"exit_status": "Submitted"}})
            return {"output": "ok", "returncode": 0, "exception_info": ""}

        def get_template_vars(self, **given: object) -> dict[str, object]:
            return given

        def serialize(self) -> dict[str, object]:
            return {}

    model = LitellmModel(
        model_name="openai/mock",
        model_kwargs={"api_base": f"{url}/{steps}/bash/v1", "api_key": "none"},
        cost_tracking="ignore_errors",
        observation_template="{{ output.output }}",
    )
    DefaultAgent(
        model, Nothing(), system_template="s", instance_template="{{ task }}", cost_limit=0, step_limit=0
    ).run("go")


def pydantic_ai(url: str, steps: int, _: Path) -> None:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.usage import UsageLimits

    provider = OpenAIProvider(base_url=f"{url}/{steps}/noop/v1", api_key="none")
    agent = Agent(OpenAIChatModel("mock", provider=provider))

    @agent.tool_plain
    def noop(text: str) -> str:
        """Do nothing."""
        return "ok"

    agent.run_sync("go", usage_limits=UsageLimits(request_limit=10 * steps))


LOOPS = {"assay": assay, "openai, typed history": typed_history, "mini": mini, "pydantic-ai": pydantic_ai}


if __name__ == "__main__":
    name, url, steps, folder = sys.argv[1:]
    LOOPS[name](url, int(steps), Path(folder))
