"""Prints what each way of calling returned, as JSON. Run by an interpreter that has LiteLLM's SDK and mcp."""

import json
import sys

import litellm  # type: ignore[import-not-found]

MODEL = "openai/svc-chat"
ASKED = [{"role": "user", "content": "hello 世界"}]

events = list(litellm.responses(model=MODEL, input="hello 世界", stream=True))
returned = {
    "chat": litellm.completion(MODEL, messages=ASKED).choices[0].message.content,
    "responses": litellm.responses(model=MODEL, input="hello 世界").output[-1].content[-1].text,
    "responses_stream": "".join(
        event.delta for event in events if event.type == "response.output_text.delta"
    ),
}
sys.stdout.write(json.dumps(returned))
