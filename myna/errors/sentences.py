"""Sentences that may be said in several languages: English text, with its values kept apart.

The long ones of `errors` are here.
"""

from typing import Any

REFUSED = "The channel refused this request; the units were refunded."
REFUSED_CODE = "The channel refused this request, with the code {code}; the units were refunded."
REFUSED_SAYING = "The channel refused this request: {said} The units were refunded."
MODEL_UNKNOWN = "model: the channel does not have this model; the units were refunded."
LARGE_ANSWER = "The channel's answer is too large to be passed on; the units were refunded. Ask for less."
LARGER_ANSWER = (
    "The channel's answer has more than {limit_bytes} bytes, which is the limit; the units were refunded. Ask"
    " for less."
)
EMPTY_ANSWER = "The model's answer is empty; the units were refunded."
CHANNELS_BUSY = "The channel has reached a limit of its server; the units were refunded, try again later."
CHANNELS_FULL = "Every channel has as many requests open as it may have; the units were refunded, try again."
CHANNELS_SLOW = (
    "The channel took too long; the units were refunded. A retry would take as long: ask for less at a time."
)
OUT_OF_FILES = "The service has as many files open as it may have; the units were refunded, try again."
ALL_FAILED = "No channel gave an answer; the units were refunded, try again later."
NO_QUOTA = "The channel's server says that its quota is used up; the units were refunded. Tell the operator."
NO_ACCESS = (
    "The channel's server refuses the key of this service; the units were refunded. Tell the operator."
)
NOT_OFFERED = (
    "The channel's server does not offer this model or endpoint; the units were refunded. Tell the operator."
)
NO_MODEL = (
    "model: there is no model {model!r} that this API key can use here; list the models, and use one of them."
)
CAP_REACHED = (
    "This API key has used {used} of the {units} units that its cap allows per"
    " {period}, and this call costs {cost}; the cap renews at {renews_at}. Use another"
    " key, or ask for a higher cap."
)
STORAGE_QUOTA_REACHED = (
    "The account stores {stored_mib} MiB of audio, samples and responses and may store"
    " {mib_max}; nothing was charged. Ask the operator to delete cloned voices or old"
    " audio, or to raise this quota; delete stored responses, or send store: false."
)
NODE_TOO_OLD = (
    "The node speaks another protocol than the site, which speaks {wanted}: install"
    " the same version of Myna on both."
)
COMPRESSED = "{encoding} isn't supported; send the body uncompressed."
TOO_SLOW = "The body didn't arrive whole within {seconds:g} s; send it faster."
TOO_LARGE = "The body is over the limit of {limit_bytes} bytes; send a smaller one."
NO_UNITS = "The account has {balance} units and this call costs {units}; ask the operator for more."
SPEECH_NOT_IN_SCOPE = (
    "The instruction asks for speech, and this key lacks the tts scope; use a key that has it."
)
UNKNOWN_KEYS = (
    "Too many requests from this address had an unknown API key; check the key, then try again later."
)
REPORT_SLOW = "This report takes too long to read; choose a shorter period, or try again."
CHANGES_WAIT = "Too many requests are waiting for the database; nothing was changed, try again."
FORMS_PER_MINUTE = "Only {most} forms are accepted in a minute; nothing was changed, try again in {wait_s} s."
NO_CHAT_CHANNEL = "There is no chat channel: see 'myna channel list'."
CHAT_CHANNELS_FAIL = (
    "The circuit of every chat channel is open, since its last calls failed: see 'myna channel list'."
)
NO_SPEECH = "No speech channel and no compute node can speak now: see 'myna voice list'."
DISK_LOW = "The disk has less free space than MYNA_DISK_RESERVE_BYTES."
UNAVAILABLE = (NO_CHAT_CHANNEL, CHAT_CHANNELS_FAIL, NO_SPEECH, DISK_LOW)
"""Why chat or speech is unavailable: in /readyz and on the page Health."""


class SentenceError(Exception):
    """An exception whose message is an English sentence. `values` fill its placeholders; without any, the
    sentence is used as it is. The value `what` is a phrase, which is translated too. `field` is the field
    that is wrong, where that is known."""

    def __init__(self, sentence: str, field: str = "", **values: Any) -> None:
        super().__init__(sentence.format(**values) if values else sentence)
        self.sentence, self.field, self.values = sentence, field, values

    @property
    def message(self) -> str:
        """The sentence in English, with its values."""
        return str(self)


class WrongValue(SentenceError, ValueError):
    """A value that is not accepted. The sentence says what it must be, as `must be …`."""
