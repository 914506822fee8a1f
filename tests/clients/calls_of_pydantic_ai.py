"""Prints what each way of calling returned, as JSON. Run by an interpreter that has pydantic-ai."""

import json
import sys
from typing import Any

from pydantic import BaseModel
from pydantic_ai import Agent  # type: ignore[import-not-found]


class Place(BaseModel):
    """A place."""

    city: str


def weather(city: str) -> str:
    """The weather in a city."""
    return f"It rains in {city}."


def stream(model: str) -> str:
    answer = Agent(model).run_stream_sync("hello 世界")
    return "".join(answer.stream_text(delta=True))


def tools(model: str) -> str:
    return str(Agent(model, tools=[weather]).run_sync('fault=tool:{"city":"Oslo"}').output)


def output(model: str) -> str:
    answer: Any = Agent(model, output_type=Place).run_sync('fault=tool:{"city":"Oslo"}')
    return str(answer.output.city)


def conversation(model: str) -> str:
    agent = Agent(model)
    first = agent.run_sync("hello")
    return str(agent.run_sync("again", message_history=first.all_messages()).output)


def returned_by(model: str) -> dict[str, str]:
    return {way.__name__: way(model) for way in (stream, tools, output, conversation)}


returned = {"chat": returned_by("openai-chat:svc-chat"), "responses": returned_by("openai:svc-chat")}
sys.stdout.write(json.dumps(returned))
