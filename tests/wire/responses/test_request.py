"""A body of POST /responses becomes a body of POST /chat/completions, or is refused by the field's name."""

from typing import Any

import pytest

from myna.errors import InvalidRequest
from myna.wire.responses.request import to_chat
from myna.wire.responses.tools import Tools
from tests.wire.responses.stream import message, output_text

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
IMAGE = "data:image/png;base64,AAAA"


def chat(**fields: Any) -> dict[str, Any]:
    return to_chat({"model": "svc-chat", "input": "hello", **fields}, Tools(fields.get("tools") or []))


def messages(*items: dict[str, Any], **fields: Any) -> list[Any]:
    found = chat(input=list(items), **fields)["messages"]
    assert isinstance(found, list)
    return found


def refused(**fields: Any) -> str:
    with pytest.raises(InvalidRequest) as raised:
        chat(**fields)
    return raised.value.message


def call(number: int) -> dict[str, Any]:
    return {"type": "function_call", "call_id": f"call_{number}", "name": "weather", "arguments": "{}"}


def result(number: int, output: Any = "rain") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": f"call_{number}", "output": output}


def chat_call(number: int) -> dict[str, Any]:
    return {"id": f"call_{number}", "type": "function", "function": {"name": "weather", "arguments": "{}"}}


def test_a_text_becomes_one_message_of_the_user() -> None:
    assert chat() == {"model": "svc-chat", "messages": [{"role": "user", "content": "hello"}]}


def test_instructions_come_first_as_the_system_with_what_the_developer_says_at_once() -> None:
    """Templates of some models refuse a second message of the system, and servers a list of texts."""
    texts = [{"type": "input_text", "text": "You may write."}, {"type": "input_text", "text": "Not delete."}]
    developer, user = {"role": "developer", "content": texts}, {"role": "user", "content": "hello"}
    assert messages(developer, user, developer, instructions="Be brief.") == [
        {"role": "system", "content": "Be brief.\nYou may write.\nNot delete."},
        {"role": "user", "content": "hello"},
        {"role": "system", "content": "You may write.\nNot delete."},
    ]


def test_log_probabilities_are_asked_of_the_chat() -> None:
    asked = {"include": ["reasoning.encrypted_content", "message.output_text.logprobs"]}
    for fields, count in [(asked, None), ({"top_logprobs": 3}, 3), (asked | {"top_logprobs": 0}, 0)]:
        sent = chat(**fields)
        assert (sent["logprobs"], sent.get("top_logprobs")) == (True, count)
    assert not chat(include=["web_search_call.results"], top_logprobs=0).keys() & {"logprobs", "top_logprobs"}


@pytest.mark.parametrize(
    ("responses_role", "chat_role"), [("user", "user"), ("system", "system"), ("developer", "system")]
)
def test_a_message_keeps_its_role_and_a_developer_is_the_system(responses_role: str, chat_role: str) -> None:
    assert messages({"role": responses_role, "content": "hello"}) == [{"role": chat_role, "content": "hello"}]


def test_parts_of_a_message_keep_their_order() -> None:
    content = [
        {"type": "input_text", "text": "What is this?"},
        {"type": "input_image", "image_url": IMAGE, "detail": "low"},
        {"type": "input_image", "image_url": IMAGE, "detail": None},
        {"type": "input_file", "file_data": IMAGE, "filename": "a.png"},
        {"type": "input_text", "text": "And that?", "prompt_cache_breakpoint": {"mode": "explicit"}},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
    ]
    (found,) = messages({"type": "message", "role": "user", "content": content})
    assert found["role"] == "user"
    assert found["content"] == [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": IMAGE, "detail": "low"}},
        {"type": "image_url", "image_url": {"url": IMAGE}},
        {"type": "file", "file": {"file_data": IMAGE, "filename": "a.png"}},
        {"type": "text", "text": "And that?"},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
    ]


def test_the_output_of_a_response_is_the_input_of_the_next() -> None:
    first, second = {"role": "user", "content": "hi"}, {"role": "user", "content": "?"}
    reasoning: dict[str, Any] = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": None}
    found = messages(first, reasoning, message("msg_1", output_text("Hello!")), second)
    assert found == [first, {"role": "assistant", "content": "Hello!"}, second]


def test_reasoning_is_a_member_of_the_message_that_it_led_to() -> None:
    def thought(*texts: str) -> dict[str, Any]:
        parts = [{"type": "reasoning_text", "text": text} for text in texts]
        return {"id": "rs_1", "type": "reasoning", "summary": [], "content": parts}

    question = {"role": "user", "content": "Weather?"}
    found = messages(
        question, thought("H", "m."), thought(" Oslo."), call(1), result(1), thought("!"), question
    )
    calling = found.pop(1)
    assert (calling["reasoning_content"], len(calling["tool_calls"])) == ("Hm. Oslo.", 1)
    assert [one["role"] for one in found] == ["user", "tool", "user"]


def test_a_refusal_is_text_for_the_model() -> None:
    content = [{"type": "refusal", "refusal": "No."}]
    assert messages({"role": "assistant", "content": content}) == [{"role": "assistant", "content": "No."}]


def test_the_consecutive_items_of_the_assistant_become_one_message() -> None:
    text = {"role": "assistant", "content": [{"type": "output_text", "text": "Let me look."}]}
    question = {"role": "user", "content": "Weather?"}
    found = messages(question, text, call(1), call(2), result(1), result(2), call(3), result(3))
    assert found == [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": "Let me look.", "tool_calls": [chat_call(1), chat_call(2)]},
        {"role": "tool", "tool_call_id": "call_1", "content": "rain"},
        {"role": "tool", "tool_call_id": "call_2", "content": "rain"},
        {"role": "assistant", "content": None, "tool_calls": [chat_call(3)]},
        {"role": "tool", "tool_call_id": "call_3", "content": "rain"},
    ]


def test_the_output_of_a_function_may_have_parts() -> None:
    parts = [{"type": "input_text", "text": "a map"}, {"type": "input_image", "image_url": IMAGE}]
    content = [{"type": "text", "text": "a map"}, {"type": "image_url", "image_url": {"url": IMAGE}}]
    assert messages(call(1), result(1, parts), call(2), result(2, []))[1::2] == [
        {"role": "tool", "tool_call_id": "call_1", "content": content},
        {"role": "tool", "tool_call_id": "call_2", "content": ""},
    ]


@pytest.mark.parametrize("choice", ["none", "auto", "required"])
def test_a_choice_of_calls_is_passed_on(choice: str) -> None:
    tools = [{"type": "function", "name": "weather"}]
    assert chat(tool_choice=choice, tools=tools)["tool_choice"] == choice


def test_the_format_of_the_text() -> None:
    schema = {"name": "place", "schema": SCHEMA, "strict": True}
    form = {"type": "json_schema", "description": None, **schema}
    needed = {"response_format": {"type": "json_schema", "json_schema": schema}, "verbosity": "low"}
    assert chat(text={"format": form, "verbosity": "low"}) == chat() | needed
    assert chat(text={"format": {"type": "json_object"}})["response_format"] == {"type": "json_object"}
    assert "response_format" not in chat(text={"format": {"type": "text"}})


def test_the_other_fields() -> None:
    same = {"temperature": 0, "top_p": 0.5, "presence_penalty": 0.1, "frequency_penalty": 0.2, "user": "u"}
    renamed = {"max_output_tokens": 50.0, "reasoning": {"effort": "low", "summary": "auto"}, "stream": True}
    unused = {
        "prompt_cache_key": "k",
        "safety_identifier": "s",
        "max_tool_calls": 3,
        "metadata": {"a": "b"},
        "store": False,
        "background": False,
        "include": ["reasoning.encrypted_content"],
        "truncation": "disabled",
    }
    streamed = {"stream": True, "stream_options": {"include_usage": True}}
    needed = {"max_completion_tokens": 50, "reasoning_effort": "low", **streamed}
    assert chat(**same, **renamed, **unused) == chat() | same | needed


def test_null_is_as_good_as_absent() -> None:
    names = (
        "instructions", "tools", "tool_choice", "parallel_tool_calls", "text", "max_output_tokens",
        "reasoning", "temperature", "top_p", "user", "metadata", "stream", "store", "background",
        "previous_response_id", "conversation", "prompt",
    )  # fmt: skip
    assert chat(**dict.fromkeys(names)) == chat()


def parts(*content: dict[str, Any]) -> dict[str, Any]:
    return {"input": [{"role": "user", "content": list(content)}]}


STATELESS = "this service is stateless and keeps no responses"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"store": True}, f"store: must be false; {STATELESS}."),
        ({"background": True}, "background: must be false; a response is the answer to its request here."),
        ({"previous_response_id": "resp_1"}, f"previous_response_id: {STATELESS}"),
        ({"conversation": {"id": "conv_1"}}, "conversation: this service keeps none; "),
        ({"prompt": {"id": "pmpt_1"}}, "prompt: this service keeps no prompts; "),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0]: this service keeps no such item"),
        ({"input": [{"id": "msg_1"}]}, "input[0]: this service keeps no such item"),
    ],
)
def test_state_is_refused(fields: dict[str, Any], message: str) -> None:
    assert refused(**fields).startswith(message)


def test_a_reference_to_reasoning_is_left_out_as_reasoning_is() -> None:
    """The AI SDK refers to what a response has thought, also where it sends everything else."""
    reference = {"type": "item_reference", "id": "rs_1"}
    assert messages(reference, {"role": "user", "content": "hi"}) == [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize("kind", ["compaction", "mesage", 5, [], {}])
def test_items_of_other_types_are_refused(kind: Any) -> None:
    assert refused(input=[{"role": "user", "content": "hi"}, {"type": kind}]) == (
        'input[1].type: must be one of "message", "function_call", "function_call_output",'
        ' "custom_tool_call", "custom_tool_call_output", "reasoning"; other tools are not run here.'
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"input": None}, "input: must be a string or an array, not null."),
        ({"input": []}, "input: must have at least one item."),
        ({"input": [{"type": "reasoning"}]}, "input: has no item that a model reads; send a message too."),
        ({"input": ["hello"]}, "input[0]: must be an object, not a string."),
        ({"input": [{"role": "user"}]}, "input[0].content: is missing."),
        ({"input": [{"content": "hi"}]}, "input[0].role: is missing; send "),
        ({"input": [{"role": "tool", "content": "hi"}]}, 'input[0].role: must be "assistant", '),
        (parts({"type": "input_text"}), "input[0].content[0].text: is missing."),
        (parts({"type": "text", "text": ""}), "input[0].content[0].type: "),
        (parts({"type": "input_image", "file_id": "file-1"}),
         "input[0].content[0].image_url: is missing; this service keeps no files."),
        ({"input": [call(1), result(1, [{"type": "input_file", "file_id": "file-1"}])]},
         "input[1].output[0].file_data: is missing; this service keeps no files."),
        ({"input": [{"type": "function_call", "call_id": "c", "name": "f"}]},
         "input[0].arguments: is missing."),
        ({"tools": [{"type": "function"}]}, "tools[0].name: is missing."),
        ({"tools": [{}]}, 'tools[0].type: must be a string, such as "function".'),
        ({"tools": [{"type": "custom"}]}, "tools[0].name: is missing."),
        ({"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "mcp"}]}]},
         'tools[0].tools[0].type: must be "function" or "custom".'),
        ({"tool_choice": {"type": "web_search"}}, 'tool_choice.type: must be "function", "custom" or '),
        ({"tool_choice": "sometimes"}, 'tool_choice: must be "none", "auto", "required" or a function.'),
        ({"tool_choice": {"type": "function"}}, "tool_choice.name: is missing."),
        ({"text": {"format": {"type": "json_schema"}}}, "text.format.name: is missing."),
        ({"text": {"format": {"type": "grammar"}}}, "text.format.type: "),
        ({"max_output_tokens": "50"}, "max_output_tokens: must be an integer, not a string."),
        ({"temperature": "0"}, "temperature: must be a number, not a string."),
        ({"model": 5}, "model: must be a string, not an integer"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named(fields: dict[str, Any], message: str) -> None:
    assert refused(**fields).startswith(message)
