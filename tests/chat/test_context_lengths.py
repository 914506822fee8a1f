"""How many tokens a model takes, as servers list it."""

import pytest

from myna.chat.context_lengths import lengths_in
from myna.config import context_lengths


@pytest.mark.parametrize(
    ("listed", "lengths"),
    [
        ('{"data":[{"id":"a","max_model_len":4096},{"id":"b"}]}', {"a": 4096}),
        (
            '{"data":[{"id":"a","context_length":131072,"top_provider":{"context_length":4096}}]}',
            {"a": 4096},
        ),
        ('{"data":[{"id":"a","context_window":8192}]}', {"a": 8192}),
        ('{"data":[{"id":"a","max_context_length":32768}]}', {"a": 32768}),
        ('{"data":[{"id":"a","meta":{"n_ctx_train":131072,"n_ctx":2048}}]}', {"a": 2048}),
        ('{"data":[{"id":"a","meta":{"n_ctx_train":131072}}]}', {}),
        ('{"data":[{"id":"a","context_length":"many"},7,{"id":"b","context_length":true}]}', {}),
        ('{"data":null}', {}),
        ("[]", {}),
    ],
    ids=[
        "vLLM",
        "OpenRouter",
        "Groq",
        "Mistral",
        "llama.cpp",
        "what it was trained with",
        "odd",
        "none",
        "no list",
    ],
)
def test_the_length_is_the_one_that_the_server_serves(listed: str, lengths: dict[str, int]) -> None:
    assert lengths_in(listed.encode()) == lengths


def test_the_operator_says_lengths_by_model() -> None:
    assert context_lengths(" a=b=10,gpt-*=128000, ") == {"a=b": 10, "gpt-*": 128_000}
    for text in ("a", "a=", "=5", "a=0", "a=1.5", "a=5,a=6", "a=5 b=6"):
        with pytest.raises(ValueError, match="must be MODEL=TOKENS"):
            context_lengths(text)
