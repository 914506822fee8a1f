"""The tools of a response as the functions of a chat, and the calls of these functions back.

    function               a function
    custom                 a function of one text, `input`
    namespace              its functions and custom tools, by the names NAMESPACE__NAME
    web_search, mcp, …     nothing: whoever offers such a tool runs it, and nothing here can

Items of the input may hold more tools (`additional_tools`), and calls of tools that nothing here runs, from
an earlier answer of another server.

Sources: openai-python's `NamespaceTool`, `CustomTool` and `ResponseCustomToolCall`; Codex sends all of them.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, get_args

from msgspec import Struct

from myna.errors import InvalidRequest
from myna.wire.body import convert
from myna.wire.lenient import UNREADABLE, dumps, loads, object_of, objects_of

NAME_MAX = 64
"""Characters of a function's name, as OpenAI's API has it."""
INPUT = "input"
"""The parameter of the function that a custom tool becomes."""
CallKind = Literal["function", "custom"]
_CALLABLE = get_args(CallKind)
_ALLOWED = "allowed_tools"
_MORE_TOOLS = ("additional_tools", "tool_search_output")
"""Items with tools for the model, beside those of the request."""
_OWN_CALLS = ("function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output")
_HOSTED_CALL = re.compile(r"[a-z_]{1,40}_(call|output)|mcp_[a-z_]{1,40}|program")


class FunctionTool(Struct, frozen=True):
    """A function that the model may call. Chat completions nest these fields in `function`."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class TextInput(Struct, frozen=True, tag_field="type", tag="text"):
    """Any text."""


class GrammarInput(Struct, frozen=True, tag_field="type", tag="grammar"):
    """Text of a grammar, which the model is told: chat completions can't enforce it."""

    definition: str
    syntax: str


class CustomTool(Struct, frozen=True):
    """A tool whose input is a text."""

    name: str
    description: str | None = None
    format: TextInput | GrammarInput | None = None


class Namespace(Struct, frozen=True):
    """Functions and custom tools that have a name in common."""

    name: str
    tools: list[dict[str, Any]]


class MoreTools(Struct, frozen=True):
    """An item of the input with tools."""

    tools: list[dict[str, Any]]


class ChosenTool(Struct, frozen=True):
    """The only tool that the model must call."""

    name: str
    namespace: str | None = None


class AllowedTools(Struct, frozen=True):
    """The tools that the model may call, of those that it is told of."""

    mode: Literal["auto", "required"]
    tools: list[dict[str, Any]]


class Called(Struct, frozen=True):
    """The tool whose function was called."""

    kind: CallKind
    name: str
    namespace: str | None = None


class Tools:
    """The tools of one request, whose input has these `items`, the first with this number. `functions` are
    those of the chat; `kept` are the tools that they stand for, `hosted` the types of the others and of their
    calls among the items, unless it `refuses_hosted`. Raises InvalidRequest."""

    def __init__(
        self,
        tools: Iterable[dict[str, Any]],
        items: Sequence[dict[str, Any]] = (),
        *,
        first: int = 0,
        refuses_hosted: bool = False,
    ) -> None:
        self._functions: dict[str, dict[str, Any]] = {}
        self.kept: list[dict[str, Any]] = []
        self.hosted: list[str] = []
        self._refuses_hosted = refuses_hosted
        self._called: dict[str, Called] = {}
        self._names: dict[tuple[str | None, str], str] = {}
        spaces: list[tuple[Namespace, str]] = []
        for path, tool in [*_numbered(tools, "tools"), *self._more(items, first)]:
            match _type(tool, path):
                case "function" | "custom":
                    self._add(tool, None, path)
                case "namespace":
                    spaces.append((convert(tool, Namespace, path), path))
                case hosted if not refuses_hosted:
                    self.hosted.append(hosted)
                    continue
                case hosted:
                    raise InvalidRequest(
                        f'must be "function", "custom" or "namespace", not "{hosted[:40]}";'
                        " other tools are not run here.",
                        field=f"{path}.type",
                    )
            self.kept.append(tool)
        for space, path in spaces:  # the other names are taken by now
            for tool, of_tool in _within(space, path):
                self._add(tool, space.name, of_tool)

    @property
    def functions(self) -> list[dict[str, Any]]:
        return list(self._functions.values())

    def _more(self, items: Sequence[dict[str, Any]], first: int) -> Iterator[tuple[str, dict[str, Any]]]:
        """The tools of the items. Notes calls of hosted ones."""
        for number, item in enumerate(items, first):
            path, kind = f"input[{number}]", item.get("type")
            if kind in _MORE_TOOLS:
                yield from _numbered(convert(item, MoreTools, path).tools, f"{path}.tools")
            elif hosted := _hosted_call(kind):
                if self._refuses_hosted:
                    raise InvalidRequest(
                        f'must not be "{hosted}"; other tools are not run here.', field=f"{path}.type"
                    )
                self.hosted.append(hosted)

    def name_of(self, name: str, namespace: str | None) -> str:
        """The name of the function for a tool, also for one that is no longer offered."""
        known = self._names.get((namespace, name))
        return known or (name if namespace is None else _joined(namespace, name))

    def called(self, function: str) -> Called:
        """The tool that this function stands for; a function if there is none."""
        return self._called.get(function) or Called("function", function)

    def chosen(self, choice: str | dict[str, Any] | None) -> dict[str, Any]:
        """The members of the chat about its tools: the functions that the model may call, and whether it
        must. Servers refuse a choice without functions. Raises InvalidRequest."""
        functions = self.functions
        if isinstance(choice, dict) and choice.get("type") == _ALLOWED:
            allowed = convert(choice, AllowedTools, "tool_choice")
            functions, choice = self._allowed(allowed.tools), allowed.mode
        elif isinstance(choice, dict):
            if choice.get("type") not in _CALLABLE:
                raise InvalidRequest(
                    'must be "function", "custom" or "allowed_tools"; other tools are not run here.',
                    field="tool_choice.type",
                )
            tool = convert(choice, ChosenTool, "tool_choice")
            choice = {"type": "function", "function": {"name": self.name_of(tool.name, tool.namespace)}}
        elif choice not in (None, "none", "auto", "required"):
            raise InvalidRequest('must be "none", "auto", "required" or a function.', field="tool_choice")
        if functions:
            return {"tools": functions, "tool_choice": choice}
        if choice not in (None, "none", "auto"):
            raise InvalidRequest("asks for a call, but none of the tools is run here.", field="tool_choice")
        return {}

    def kept_choice(self, choice: Any) -> Any:
        """The choice without tools that are not kept."""
        if not isinstance(choice, dict) or choice.get("type") != _ALLOWED:
            return choice
        tools = [tool for tool in objects_of(choice.get("tools")) if tool.get("type") not in self.hosted]
        return choice | {"tools": tools} if tools else "none"

    def _allowed(self, tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
        names = set()
        for number, tool in enumerate(tools):
            path = f"tool_choice.tools[{number}]"
            if _type(tool, path) in _CALLABLE:
                chosen = convert(tool, ChosenTool, path)
                names.add(self.name_of(chosen.name, chosen.namespace))
                if not names <= self._called.keys():
                    raise InvalidRequest("is none of the tools.", field=f"{path}.name")
        return [function for function in self.functions if function["function"]["name"] in names]

    def _add(self, tool: dict[str, Any], namespace: str | None, path: str) -> None:
        kind: CallKind = "custom" if tool["type"] == "custom" else "function"
        if kind == "custom":
            function = _function_of(convert(tool, CustomTool, path))
        else:
            function = given(convert(tool, FunctionTool, path))
        name = function["name"]
        known = self._names.get((namespace, name))  # a later item may tell it again
        if known is None and namespace is not None:
            known = _joined(namespace, name)
            known = _cut(namespace, name) if known in self._called else known
        function["name"] = known = known or name
        self._called[known] = Called(kind, name, namespace)
        self._names[namespace, name] = known
        self._functions[known] = {"type": "function", "function": function}


def is_of_tools(kind: Any) -> bool:
    """Whether items of this type are read by `Tools`, and are no part of the chat."""
    return kind in _MORE_TOOLS or bool(_hosted_call(kind))


def to_arguments(text: str) -> str:
    """The input of a custom tool as the arguments of its function."""
    return dumps({INPUT: text}).decode()


def to_input(arguments: str) -> str:
    """The input of a custom tool, whose function has these arguments; the arguments themselves where the
    model did not write them as JSON."""
    try:
        text = object_of(loads(arguments.encode())).get(INPUT)
    except (*UNREADABLE, UnicodeEncodeError):
        return arguments
    return text if isinstance(text, str) else arguments


def given(struct: Struct) -> dict[str, Any]:
    """The fields of the struct that are not null."""
    values = ((name, getattr(struct, name)) for name in struct.__struct_fields__)
    return {name: value for name, value in values if value is not None}


def _type(tool: dict[str, Any], path: str) -> str:
    kind = tool.get("type")
    if not isinstance(kind, str):
        raise InvalidRequest('must be a string, such as "function".', field=f"{path}.type")
    return kind


def _hosted_call(kind: Any) -> str:
    """The type of items that are calls of hosted tools, or their outputs; empty for others."""
    if not isinstance(kind, str) or kind in (*_OWN_CALLS, *_MORE_TOOLS):
        return ""
    return kind if _HOSTED_CALL.fullmatch(kind) else ""


def _numbered(tools: Iterable[dict[str, Any]], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((f"{path}[{number}]", tool) for number, tool in enumerate(tools))


def _within(space: Namespace, path: str) -> Iterator[tuple[dict[str, Any], str]]:
    for number, tool in enumerate(space.tools):
        of_tool = f"{path}.tools[{number}]"
        if _type(tool, of_tool) not in _CALLABLE:
            raise InvalidRequest('must be "function" or "custom".', field=f"{of_tool}.type")
        yield tool, of_tool


def _function_of(tool: CustomTool) -> dict[str, Any]:
    text = {"type": "string"}
    if isinstance(tool.format, GrammarInput):
        text["description"] = f"Text of this {tool.format.syntax} grammar:\n{tool.format.definition}"
    parameters = {
        "type": "object",
        "properties": {INPUT: text},
        "required": [INPUT],
        "additionalProperties": False,
    }
    described = {} if tool.description is None else {"description": tool.description}
    return {"name": tool.name, **described, "parameters": parameters}


def _joined(namespace: str, name: str) -> str:
    joined = f"{namespace}__{name}"
    return joined if len(joined) <= NAME_MAX else _cut(namespace, name)


def _cut(namespace: str, name: str) -> str:
    """A name that no other tool has, the same in each request."""
    digest = hashlib.sha256(f"{namespace}\0{name}".encode()).hexdigest()[:10]
    return f"{namespace}__{name}"[: NAME_MAX - 11] + f"_{digest}"
