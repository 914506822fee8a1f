"""Prints what each way of calling returned, as JSON. Run by an interpreter that has LangChain."""

import json
import sys
from typing import Any

from langchain_core.messages import HumanMessage, ToolMessage  # type: ignore[import-not-found]
from langchain_openai import ChatOpenAI  # type: ignore[import-not-found]
from pydantic import BaseModel


class Place(BaseModel):
    """A place."""

    city: str


def weather(city: str) -> str:
    """The weather in a city."""
    return f"It rains in {city}."


def stream(model: Any) -> str:
    return "".join(chunk.text for chunk in model.stream("hello 世界"))


def tools(model: Any) -> str:
    bound = model.bind_tools([weather])
    question = HumanMessage('fault=tool:{"city":"Oslo"}')
    answer = bound.invoke([question])
    (call,) = answer.tool_calls
    result = ToolMessage(weather(**call["args"]), tool_call_id=call["id"])
    return str(bound.invoke([question, answer, result]).text)


def output(model: Any) -> str:
    place = model.with_structured_output(Place).invoke('fault=say:{"city":"Oslo"}')
    return str(place.city)


def conversation(model: Any) -> str:
    first = model.invoke("hello")
    return str(model.invoke([HumanMessage("hello"), first, HumanMessage("again")]).text)


def returned_by(model: Any) -> dict[str, str]:
    return {way.__name__: way(model) for way in (stream, tools, output, conversation)}


returned = {
    "chat": returned_by(ChatOpenAI(model="svc-chat")),
    "responses": returned_by(ChatOpenAI(model="svc-chat", use_responses_api=True)),
}
sys.stdout.write(json.dumps(returned))
