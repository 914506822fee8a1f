"""OpenAI's `POST /responses`, translated to a chat completion and back. No I/O.

    request.py      the body of /responses         -> the body of /chat/completions
    tools.py        the tools of a response        -> functions, and their calls back
    items.py        the input of a response        -> messages
    answer.py       a chat completion              -> a response
    events.py       chunks of a chat completion    -> the events of a streamed response
    completion.py   the parts of completions and chunks that are read
    output.py       items and members of a response, which answer.py and events.py share

The translation is stateless: `conversation`, `background` and `prompt` are refused, and so are `store: true`,
`previous_response_id` and references to items, unless the caller has the items of stored responses.
"""
