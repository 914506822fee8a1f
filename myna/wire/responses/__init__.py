"""OpenAI's `POST /responses`, translated to a chat completion and back. No I/O.

    request.py      the body of /responses         -> the body of /chat/completions
    items.py        the input of a response        -> messages
    answer.py       a chat completion              -> a response
    events.py       chunks of a chat completion    -> the events of a streamed response
    completion.py   the parts of completions and chunks that are read
    output.py       items and members of a response, which answer.py and events.py share

The translation is stateless: it keeps no responses, so `previous_response_id`, `conversation`, `background`,
`prompt` and `store: true` are refused, as are references to items. Of the tools only functions are offered.
"""
