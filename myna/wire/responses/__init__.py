"""OpenAI's `POST /responses`, translated to a chat completion and back. No I/O.

    request.py      the body of /responses                  -> the body of /chat/completions
    tools.py        the tools of a response                 -> functions, and their calls back
    events.py       a chat completion, whole or in chunks   -> a response, whole or as events
    output.py       items and members of a response

The translation is stateless: `conversation`, `background` and `prompt` are refused, and so are `store: true`,
`previous_response_id` and references to items, unless the caller has the items of stored responses.
"""
