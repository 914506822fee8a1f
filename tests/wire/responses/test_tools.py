"""Tools become functions of a chat, and the calls of these functions become calls of the tools."""

import json
from typing import Any

import pytest

from myna.errors import InvalidRequest
from myna.wire.responses.events import ResponseEvents
from myna.wire.responses.request import to_chat
from myna.wire.responses.tools import NAME_MAX, Tools
from tests.wire.responses.stream import CREATED_AT, ENDED_AT, RESPONSE_ID, chunk, parsed, response_to

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
SHELL: dict[str, Any] = {"type": "function", "name": "shell", "parameters": SCHEMA, "strict": False}
GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}
PATCH = {"type": "custom", "name": "apply_patch", "description": "Edits files.", "format": GRAMMAR}
AGENTS = {
    "type": "namespace",
    "name": "agents",
    "description": "Other agents.",
    "tools": [
        {"type": "function", "name": "wait", "description": "Waits.", "parameters": SCHEMA, "strict": None},
        {"type": "custom", "name": "note"},
    ],
}
SEARCH = {"type": "web_search", "external_web_access": False}
TOOLS = [SHELL, PATCH, AGENTS]
INPUT_SCHEMA = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}
REQUEST = {"model": "svc-chat", "input": "hello", "tools": TOOLS}
CALLS = [
    ("shell", '{"city":"Oslo"}'),
    ("apply_patch", '{"input":"*** Begin\\nPatch"}'),
    ("agents__wait", "{}"),
    ("agents__note", "not JSON"),
]
"""Calls of functions, by name and arguments."""
ITEMS = [
    {"id": "fc_abc_0", "type": "function_call", "name": "shell", "arguments": '{"city":"Oslo"}'},
    {"id": "ctc_abc_1", "type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin\nPatch"},
    {"id": "fc_abc_2", "type": "function_call", "name": "wait", "namespace": "agents", "arguments": "{}"},
    {
        "id": "ctc_abc_3",
        "type": "custom_tool_call",
        "name": "note",
        "namespace": "agents",
        "input": "not JSON",
    },
]
"""The same calls in a response."""


def items() -> list[dict[str, Any]]:
    return [item | {"status": "completed", "call_id": f"call_{number}"} for number, item in enumerate(ITEMS)]


def calls() -> list[dict[str, Any]]:
    return [
        {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for number, (name, arguments) in enumerate(CALLS)
    ]


def chat(**fields: Any) -> dict[str, Any]:
    return to_chat(REQUEST | fields, Tools(fields.get("tools", TOOLS)))


def test_each_tool_becomes_a_function() -> None:
    grammar = {"type": "string", "description": "Text of this lark grammar:\nstart: /.+/"}
    patch = INPUT_SCHEMA | {"properties": {"input": grammar}}
    functions = [
        {"name": "shell", "parameters": SCHEMA, "strict": False},
        {"name": "apply_patch", "description": "Edits files.", "parameters": patch},
        {"name": "agents__wait", "description": "Waits.", "parameters": SCHEMA},
        {"name": "agents__note", "parameters": INPUT_SCHEMA},
    ]
    sent = chat(parallel_tool_calls=False)
    assert sent["tools"] == [{"type": "function", "function": function} for function in functions]
    assert sent["parallel_tool_calls"] is False


def test_streamed_calls_become_calls_of_the_tools() -> None:
    events = ResponseEvents(REQUEST, RESPONSE_ID, CREATED_AT, answer_max_bytes=10_000)
    sent: list[bytes] = []
    for number, call in enumerate(calls()):
        begin = call["function"]["arguments"][:3]
        first = call | {"index": number, "function": call["function"] | {"arguments": begin}}
        rest = {"index": number, "function": {"arguments": call["function"]["arguments"][3:]}}
        sent += events.feed(chunk(tool_calls=[first]))
        sent += events.feed(chunk(tool_calls=[rest]))
    told = parsed(b"".join([*sent, *events.finish(ENDED_AT)]))
    assert told[-1]["response"]["output"] == items()
    added = [event["item"] for event in told if event["type"] == "response.output_item.added"]
    assert [(item["type"], item["name"], item.get("namespace")) for item in added] == [
        (item["type"], item["name"], item.get("namespace")) for item in items()
    ]
    of_patch = [event for event in told if event.get("item_id") == "ctc_abc_1"]
    assert [(event["type"], event.get("delta", event.get("input"))) for event in of_patch] == [
        ("response.custom_tool_call_input.delta", "*** Begin\nPatch"),
        ("response.custom_tool_call_input.done", "*** Begin\nPatch"),
    ]


def test_the_items_of_calls_become_the_same_calls_again() -> None:
    outputs = [
        {"type": "function_call_output", "call_id": "call_0", "output": "rain"},
        {
            "type": "custom_tool_call_output",
            "call_id": "call_1",
            "output": [{"type": "input_text", "text": "ok"}],
        },
    ]
    assistant, *results = chat(input=[*items(), *outputs])["messages"]
    sent = calls()
    sent[3]["function"]["arguments"] = '{"input":"not JSON"}'
    assert assistant == {"role": "assistant", "content": None, "tool_calls": sent}
    assert results == [
        {"role": "tool", "tool_call_id": "call_0", "content": "rain"},
        {"role": "tool", "tool_call_id": "call_1", "content": "ok"},
    ]


@pytest.mark.parametrize(
    ("choice", "function"),
    [
        ({"type": "function", "name": "shell"}, "shell"),
        ({"type": "custom", "name": "apply_patch"}, "apply_patch"),
        ({"type": "function", "name": "wait", "namespace": "agents"}, "agents__wait"),
    ],
)
def test_the_chosen_tool_is_the_chosen_function(choice: Any, function: str) -> None:
    assert chat(tool_choice=choice)["tool_choice"] == {"type": "function", "function": {"name": function}}


def allowed(mode: str, *tools: dict[str, Any]) -> dict[str, Any]:
    return {"type": "allowed_tools", "mode": mode, "tools": list(tools)}


WAIT = {"type": "function", "name": "wait", "namespace": "agents"}
ONLY_PATCH = {"type": "custom", "name": "apply_patch"}
UNKNOWN = {"type": "function", "name": "no"}


@pytest.mark.parametrize(
    ("choice", "functions"),
    [
        (allowed("auto", {"type": "function", "name": "shell"}, SEARCH), ["shell"]),
        (allowed("required", WAIT, ONLY_PATCH), ["apply_patch", "agents__wait"]),
        (allowed("auto", SEARCH), None),
    ],
)
def test_the_allowed_tools_are_the_functions_of_the_chat(choice: Any, functions: list[str] | None) -> None:
    """Other servers than OpenAI's don't know such a choice, so the model is told of these alone."""
    sent = chat(tool_choice=choice)
    if functions is None:
        assert not sent.keys() & {"tools", "tool_choice", "parallel_tool_calls"}
    else:
        assert [tool["function"]["name"] for tool in sent["tools"]] == functions
        assert sent["tool_choice"] == choice["mode"]


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (allowed("required", SEARCH), "tool_choice: asks for a call, but none of the tools is run here."),
        (allowed("auto", UNKNOWN), "tool_choice.tools[0].name: is none of the tools."),
        (allowed("none"), 'tool_choice.mode: must be "auto" or "required"'),
        ({"type": "allowed_tools", "mode": "auto"}, "tool_choice.tools: is missing."),
    ],
)
def test_allowed_tools_that_are_none_are_refused(choice: Any, message: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        chat(tool_choice=choice)
    assert refused.value.message.startswith(message)


def test_a_channel_with_the_endpoint_gets_no_choice_of_a_tool_that_it_does_not_get() -> None:
    tools, shell = Tools([SHELL, SEARCH]), {"type": "function", "name": "shell"}
    assert tools.kept_choice(allowed("auto", shell, SEARCH)) == allowed("auto", shell)
    assert [tools.kept_choice(one) for one in (allowed("auto", SEARCH), shell, "auto", None)] == [
        "none", shell, "auto", None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "tools",
    [
        [{"type": "namespace", "name": "n" * 60, "tools": [SHELL, SHELL | {"name": "shell2"}]}],
        [SHELL | {"name": "a__b"}, {"type": "namespace", "name": "a", "tools": [SHELL | {"name": "b"}]}],
        [
            {"type": "namespace", "name": "a", "tools": [SHELL | {"name": "b__c"}]},
            {"type": "namespace", "name": "a__b", "tools": [SHELL | {"name": "c"}]},
        ],
    ],
)
def test_two_tools_are_two_functions_whatever_their_names(tools: list[dict[str, Any]]) -> None:
    first, again = Tools(tools), Tools(tools)
    names = [function["function"]["name"] for function in first.functions]
    assert names == [function["function"]["name"] for function in again.functions]
    assert len(set(names)) == 2 and max(map(len, names)) <= NAME_MAX
    for name in names:
        called = first.called(name)
        assert first.name_of(called.name, called.namespace) == name
    assert len({(first.called(name).name, first.called(name).namespace) for name in names}) == 2


HOSTED = ["web_search", "file_search", "code_interpreter", "computer_use_preview", "mcp", "tool_search"]


@pytest.mark.parametrize("kind", HOSTED)
def test_tools_that_nothing_here_runs_are_left_out_or_refused(kind: str) -> None:
    tools = [SHELL, {"type": kind}]
    found = Tools(tools)
    assert (found.kept, found.hosted, len(found.functions)) == ([SHELL], [kind], 1)
    with pytest.raises(InvalidRequest) as refused:
        Tools(tools, refuses_hosted=True)
    assert refused.value.message == (
        f'tools[1].type: must be "function", "custom" or "namespace", not "{kind}";'
        " other tools are not run here."
    )


def test_items_of_the_input_may_hold_more_tools_and_calls_of_hosted_ones() -> None:
    told = SHELL | {"description": "Runs a command."}
    items: list[dict[str, Any]] = [
        {"role": "user", "content": "hi"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {"type": "additional_tools", "role": "developer", "tools": [PATCH, SEARCH, told]},
        {"type": "mcp_list_tools", "server_label": "s", "tools": []},
        {"type": "tool_search_output", "call_id": None, "tools": [AGENTS]},
    ]
    found = Tools([SHELL], items)
    shell, *others = chat(tools=[told, PATCH, AGENTS])["tools"]
    assert found.functions == [shell, *others]
    assert found.hosted == ["web_search_call", "mcp_list_tools", "web_search"]
    request = REQUEST | {"input": items, "tools": [SHELL]}
    assert to_chat(request, found)["messages"] == [{"role": "user", "content": "hi"}]
    assert Tools(found.kept).functions == found.functions
    for one, message in [
        (items[1], 'input[3].type: must not be "web_search_call"; other tools are not run here.'),
        (items[2], 'input[3].tools[1].type: must be "function", "custom" or "namespace", not "web_search";'),
        (items[2] | {"tools": [{"type": "function"}]}, "input[3].tools[0].name: is missing."),
        ({"type": "additional_tools"}, "input[3].tools: is missing."),
    ]:
        with pytest.raises(InvalidRequest) as refused:
            Tools([], [one], first=3, refuses_hosted=True)
        assert refused.value.message.startswith(message)


@pytest.mark.parametrize("tools", [[SEARCH], []])
def test_a_chat_without_functions_has_no_choice_of_them(tools: list[Any]) -> None:
    """Servers refuse one."""
    fields = {"tools": tools, "tool_choice": "auto", "parallel_tool_calls": True}
    assert chat(**fields).keys() == {"model", "messages"}
    with pytest.raises(InvalidRequest) as refused:
        chat(**fields | {"tool_choice": "required"})
    assert refused.value.message == "tool_choice: asks for a call, but none of the tools is run here."


def test_the_input_of_a_custom_tool_is_whatever_the_model_wrote() -> None:
    for arguments, text in [('{"input": 5}', '{"input": 5}'), ("[]", "[]"), ("", ""), ('{"input":""}', "")]:
        call = {"id": "c", "function": {"name": "apply_patch", "arguments": arguments}}
        completion = {"choices": [{"message": {"tool_calls": [call]}}]}
        (item,) = response_to(completion, REQUEST)["output"]
        assert item["input"] == text, json.dumps(item)
