"""What a caller is told about the failures of channels, by what their servers answered: see
`myna.wire.failures`."""

import itertools
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from typing import Any

import pytest

from myna.channels.channels import Channel
from myna.errors import MynaError, UpstreamFailed
from myna.gateway.failover import FailedAttempt, error_for, from_error, from_status
from myna.gateway.relay import answers, responses
from myna.gateway.relay.answers import RequestSummary
from myna.http.client import ClientResponse
from myna.wire.failures import MEANINGS, SLOW

KEY = "a-key-without-a-prefix"
CHANNEL = Channel(kind="chat", name="up", url="http://gpu-box:8000/v1", model="", key=KEY)
VLLM = "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens."
LLAMA = "the request exceeds the available context size (4096 tokens), try increasing it"
NO_IMAGES = "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"


def attempt(
    status: int, body: Any = None, headers: Mapping[str, str] | None = None, *, callers: bool = False
) -> FailedAttempt:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    pairs = tuple((name.encode(), value.encode()) for name, value in (headers or {}).items())
    return from_status(ClientResponse(status, pairs, text), CHANNEL, model_is_callers=callers)


def error(message: str = "", **members: Any) -> dict[str, Any]:
    return {"error": {"message": message, **members}}


def told(*failures: FailedAttempt) -> MynaError:
    return error_for(failures)


CONTEXT = (400, "context_length_exceeded")
LIMITED = (429, "rate_limit_exceeded")
UNSUPPORTED = (400, "unsupported_value")
UNKNOWN = (404, "model_not_found")
FORBIDDEN = (400, "content_policy_violation")
SGLANG = "The input (5 tokens) is longer than the model's context length (4 tokens)."
GEMINI = "The input token count (9) exceeds the maximum number of tokens allowed (8)."
OTHER_CONTEXTS = (
    "You passed 5001 input tokens. However, the model's context length is only 4096 tokens.",  # vLLM
    "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
    "the model is loaded with context length of only 4096 tokens, which is not enough",  # LM Studio
    "Invalid request: Your request exceeded model token limit: 8192",  # Moonshot
    "<400> InvalidParameter: Range of input length should be [1, 30720]",  # Alibaba
    "Prompt 超长",  # Zhipu
    "This model's maximum prompt length is 131072 but the request contains 200000 tokens.",  # xAI
    "too many tokens: total number of tokens in the prompt cannot exceed 128000",  # Cohere
    "Input is too long for requested model.",  # Bedrock
)
REQUEST_FAULTS: dict[str, tuple[int, Any, tuple[int, str | None]]] = {
    "openai": (400, error(VLLM, code="context_length_exceeded"), CONTEXT),
    "vllm": (400, error(VLLM, type="BadRequestError", param=None, code=400), CONTEXT),
    "older vllm": (400, {"object": "error", "message": VLLM, "code": 400}, CONTEXT),
    "llama.cpp": (400, error(LLAMA, type="exceed_context_size_error", code=400, n_ctx=4096), CONTEXT),
    "llama.cpp without a sentence": (400, error(type="exceed_context_size_error", code=400), CONTEXT),
    "anthropic": (400, error("prompt is too long: 210000 tokens > 200000 maximum"), CONTEXT),
    "sglang": (400, error(SGLANG), CONTEXT),
    "gemini": (400, [error(GEMINI)], CONTEXT),
    "content": (403, error("Your input was flagged", code=403, metadata={}), FORBIDDEN),
    "azure": (400, error("The response was filtered", code="content_filter"), (400, "content_filter")),
    "zhipu": (400, error("系统检测到输入可能包含敏感内容", code="1301"), (400, "1301")),
    "451": (451, b"", FORBIDDEN),
    **{text: (400, error(text), CONTEXT) for text in OTHER_CONTEXTS},
    "github": (413, error("Request body too large", code="tokens_limit_reached"), CONTEXT),
    "deepseek's content": (400, error("Content Exists Risk"), FORBIDDEN),
    "vllm without images": (400, error("At most 0 image(s) may be provided in one prompt."), UNSUPPORTED),
    "vllm of texts": (400, error("m is not a multimodal model", code=400), UNSUPPORTED),
    "deepseek's images": (400, error("messages[0]: unknown variant `image_url`"), UNSUPPORTED),
    "ollama's tools": (400, {"error": "registry.ollama.ai/library/x does not support tools"}, UNSUPPORTED),
    "a line of text": (422, b"temperature: expected a number at line 1", (400, None)),
    "tgi": (422, {"error": "`inputs` tokens + `max_new_tokens` must be <= 4096"}, CONTEXT),
    "openrouter": (404, error("No endpoints found that support image input"), UNSUPPORTED),
    "ollama": (500, {"error": "this model is missing data required for image input"}, UNSUPPORTED),
    "case": (400, error("names are case-sensitive"), (400, None)),
    "images": (500, error(NO_IMAGES, type="server_error", code=500), UNSUPPORTED),
    "413": (413, b"<html>too large</html>", (400, None)),
    "415": (415, b"", (400, None)),
    "422": (422, {"detail": [{"loc": ["body", "top_p"], "msg": "must be at most 1"}]}, (400, None)),
    "400 in words": (400, error("no", code="unknown_thing"), (400, "unknown_thing")),
    "callers model": (404, error("The model `x` does not exist", code="model_not_found"), UNKNOWN),
    "deepseek": (400, error("Model Not Exist", code="invalid_request_error"), UNKNOWN),
}  # fmt: skip


@pytest.mark.parametrize("name", REQUEST_FAULTS)
def test_a_fault_of_the_request_is_told_and_counts_for_no_circuit(name: str) -> None:
    status, body, expected = REQUEST_FAULTS[name]
    failed = attempt(status, body, callers=True)
    assert failed.blameless
    found = told(failed)
    assert (found.openai_status, found.code) == expected
    assert found.headers == {"x-should-retry": "false"}
    assert "again" not in found.message and "refunded" in found.message


@pytest.mark.parametrize(
    ("status", "body", "expected", "says"),
    [
        (429, b"", LIMITED, "try again later"),
        (429, error("Slow down", code="rate_limit_exceeded"), LIMITED, "try again later"),
        (408, b"", (504, "timeout"), ""),
        (504, b"<html>", (504, "timeout"), ""),
        (500, b"", (500, None), "try again later"),
        (503, error("overloaded"), (500, None), "try again later"),
        (307, b"", (500, None), "try again later"),
        (401, error("Incorrect API key"), (500, None), "Tell the operator"),
        (403, error("Forbidden"), (500, None), "Tell the operator"),
        (400, [error("API key not valid. Please pass a valid API key.")], (500, None), "Tell the operator"),
        (402, error("Insufficient Balance"), LIMITED, "Tell the operator"),
        (429, error("Used up", code="insufficient_quota"), LIMITED, "Tell the operator"),
        (429, error("Suspended", type="exceeded_current_quota_error"), LIMITED, "Tell the operator"),
        (403, error("It has an overdue balance", code="AccountOverdueError"), LIMITED, "Tell the operator"),
        (400, error("User location is not supported for the API use."), (500, None), "Tell the operator"),
    ],
)
def test_a_fault_of_the_channel_counts_and_has_a_retry_only_where_one_may_help(
    status: int, body: Any, expected: tuple[int, str | None], says: str
) -> None:
    failed = attempt(status, body)
    assert not failed.blameless
    found = told(failed)
    assert (found.openai_status, found.code) == expected
    assert says in found.message
    may_help = says == "try again later"
    assert found.headers == ({} if may_help else {"x-should-retry": "false"})
    assert may_help or "try again" not in found.message


def test_a_model_of_the_operators_that_is_missing_is_for_the_operator() -> None:
    for status in (404, 405, 501):
        found = told(attempt(status, error("The model `x` does not exist", code="model_not_found")))
        assert (found.openai_status, found.code) == (500, None) and "Tell the operator" in found.message
        assert attempt(status).blameless


def test_an_error_with_the_status_200_has_its_own_status() -> None:
    for body, expected in (
        (error(LLAMA, code=400, type="exceed_context_size_error"), CONTEXT),
        (error("slow down", code=429), LIMITED),
        (error("slow down", code="rate_limit_exceeded", type="tokens"), LIMITED),
        ({"type": "response.failed", "response": {"error": {"code": "context_length_exceeded"}}}, CONTEXT),
        ({"type": "error", "message": VLLM, "code": "context_length_exceeded"}, CONTEXT),
        (error("out of memory", code=500), (500, None)),
    ):
        for found in errors_within(body):
            assert (found.openai_status, found.code) == expected


def errors_within(body: Any) -> list[MynaError]:
    """What the caller is told of an error in an event, and in a whole answer with the status 200."""
    data = json.dumps(body).encode()
    failures = [from_error("ErrorEvent", "an error", data, CHANNEL)]
    wholes = partial(answers.completion, data, RequestSummary("m", 1)), partial(responses.validated, data)
    for read in wholes:
        with pytest.raises(FailedAttempt) as raised:
            read(CHANNEL)
        failures.append(raised.value)
    return list(map(told, failures))


@pytest.mark.parametrize(
    ("codes", "expected", "says"),
    [
        ((1000, 1013, 1024, 1033, 9999), (500, None), "try again later"),
        ((1001,), (504, "timeout"), ""),
        ((1002, "1002", 1039, 1041, 2045), LIMITED, "try again later"),
        ((1004, 2049), (500, None), "Tell the operator"),
        ((1008, 2056), LIMITED, "Tell the operator"),
        ((1026, 1027), FORBIDDEN, "refunded"),
        ((1042, 2013), (400, None), "refunded"),
    ],
)
def test_codes_of_minimax_are_read_as_openais_errors(
    codes: tuple[Any, ...], expected: tuple[int, str | None], says: str
) -> None:
    for code in codes:
        for found in errors_within({"base_resp": {"status_code": code}, "choices": None}):
            assert (found.openai_status, found.code) == expected
            assert says in found.message
            assert ("x-should-retry" in found.headers) is (says != "try again later")
    too_long = {"status_code": 2013, "status_msg": "invalid params, context window exceeds limit"}
    assert {found.code for found in errors_within({"base_resp": too_long})} == {"context_length_exceeded"}


def test_words_and_a_harmless_message_are_passed_on() -> None:
    found = told(
        attempt(400, error(VLLM, type="BadRequestError", param="messages[0].content", code="bad-one"))
    )
    assert VLLM in found.message
    assert (found.openai_type, found.field) == ("BadRequestError", "messages[0].content")
    assert "expected a number" in told(attempt(422, REQUEST_FAULTS["a line of text"][1])).message
    extra = {"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]}  # Mistral's
    assert told(attempt(422, {"object": "error", "message": extra})).field == "seed"
    found = told(attempt(422, REQUEST_FAULTS["422"][1]))
    assert "top_p: must be at most 1." in found.message and found.field == "top_p"
    found = told(
        attempt(400, error("line one\nline two", type="no word", param="no word either", code=["x"]))
    )
    assert "line one line two." in found.message and found.message.isprintable()
    assert (found.openai_type, found.field, found.code) == ("invalid_request_error", "", None)
    assert told(attempt(400, error("x" * 35 + " y" * 1000))).message.count("y") < 300


@pytest.mark.parametrize(
    "message",
    [
        "see https://internal.example/errors",
        "model /models/llama.gguf failed",
        "cannot open 'weights/llama.gguf'",
        "upstream gpu-box said no",
        "10.0.0.7 refused",
        "[fe80::1:2:3] refused",
        "backend node7:8000 refused",
        "backend.internal refused",
        "api.example.com refused",
        "localhost refused",
        "C:\\models\\llama refused",
        'File "engine.py", line 3',
        f"key {KEY} is wrong",
        "key sk-abcdef123456 is wrong",
        "in organization org-abcdef123456",
        "Bearer abc is wrong",
    ],
)
def test_a_message_that_names_a_server_a_path_or_a_key_is_not_passed_on(message: str) -> None:
    found = told(attempt(400, error(message, code="bad_thing", type=KEY, param="gpu-box")))
    assert message not in found.message and "with the code bad_thing" in found.message
    assert found.openai_type == "invalid_request_error" and not found.field


def test_the_smallest_retry_after_of_all_channels_is_told() -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=40), usegmt=True)
    given = [
        {"retry-after": "30"},
        {},
        {"retry-after": soon},
        {"retry-after": "7.4"},
        {"retry-after": "soon"},
    ]
    failures = [attempt(429, b"", headers) for headers in given]
    assert told(*failures).headers == {"Retry-After": "7"}
    assert told(*failures[:3]).headers == {"Retry-After": "30"}
    wait = told(failures[2]).headers["Retry-After"]
    assert 35 <= int(wait) <= 40
    assert told(failures[4]).headers == {}
    gemini = attempt(429, [error("You exceeded your current quota. Please retry in 36.2s.")])
    assert told(gemini).headers == {"Retry-After": "36"}
    assert told(attempt(429, error("Please retry after 7 seconds."))).headers == {"Retry-After": "7"}
    assert told(failures[0], attempt(503, b"", {"retry-after": "3"})).headers == {"Retry-After": "3"}


def test_of_several_failures_the_one_that_tells_most_is_told_whatever_the_order() -> None:
    ranked = [
        attempt(400, error(VLLM)),
        attempt(403, error("moderation")),
        attempt(500, error(NO_IMAGES)),
        attempt(400, error("temperature is too high")),
        attempt(400, error(code="bad_thing")),
        attempt(400),
        FailedAttempt("AnswerTooLarge", "too large", limit_bytes=10),
        attempt(429),
        FailedAttempt("ChannelFull", "full"),
        FailedAttempt("TimedOut", "slow"),
        attempt(404, callers=True),
        attempt(500),
        attempt(429, error(code="insufficient_quota")),
        attempt(401),
        attempt(404),
    ]
    for better, worse in itertools.combinations(ranked, 2):
        assert told(better, worse).message == told(worse, better).message == told(better).message
    assert len({meaning.name for meaning in MEANINGS}) == len(MEANINGS)


def test_too_large_an_answer_names_the_limit() -> None:
    found = told(FailedAttempt("AnswerTooLarge", "too large", limit_bytes=8_388_608))
    assert "8388608 bytes" in found.message and found.headers == {"x-should-retry": "false"}
    assert FailedAttempt("LongEvent", "too long").blameless


def test_without_time_for_a_channel_the_call_took_too_long() -> None:
    assert isinstance(told(), UpstreamFailed) and told().openai_status == SLOW.status
