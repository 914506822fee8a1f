"""An open call keeps its request as bytes, not as a tree of objects."""

import gc
import json

from myna.chat.complete import conversation_of
from myna.wire.body import decode
from myna.wire.v1 import ChatRequest

BODY = {
    "model": "svc-agent",
    "messages": [{"role": "user", "content": [{"type": "text", "text": "你好"}], "x": None}],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
    "temperature": 0.5,
    "stream": True,
    "user": "nobody",
}


def test_a_conversation_is_stored_as_the_json_that_is_sent_upstream() -> None:
    fields, _ = decode(json.dumps(BODY).encode(), ChatRequest)
    conversation = conversation_of(fields)
    assert not gc.is_tracked(conversation)
    assert json.loads(conversation) == {name: BODY[name] for name in ("messages", "tools", "temperature")}
