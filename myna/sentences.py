"""Sentences that may be said in several languages: English text, with its values kept apart.

The long ones of `errors` are here.
"""

REFUSED = "{where}the channel refused this request; the units were refunded."
REFUSED_CODE = "{where}the channel refused this request, with the code {code}; the units were refunded."
NO_MODEL = (
    "model: there is no model {model!r} that this API key can use here; list the models, and use one of them."
)
CAP_REACHED = (
    "This API key has used {used} of the {units} units that its cap allows per"
    " {period}, and this call costs {cost}; the cap renews at {renews_at}. Use another"
    " key, or ask for a higher cap."
)
STORAGE_QUOTA_REACHED = (
    "The account stores {stored_mib} MiB of audio and samples and may store"
    " {mib_max}; nothing was charged. Ask the operator to delete cloned voices or old"
    " audio, or to raise this quota."
)
NODE_TOO_OLD = (
    "The node speaks another protocol than the site, which speaks {wanted}: install"
    " the same version of Myna on both."
)
CHANGES_WAIT = "Too many changes are waiting for the database; nothing was changed, try again."
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
    sentence is used as it is. The value `what` is a phrase, which is translated too. `field` is the form's
    field that is wrong, where that is known."""

    field = ""

    def __init__(self, sentence: str, **values: object) -> None:
        super().__init__(sentence.format(**values) if values else sentence)
        self.sentence = sentence
        self.values = values

    @property
    def message(self) -> str:
        """The sentence in English, with its values."""
        return str(self)


class WrongValue(SentenceError, ValueError):
    """A value that is not accepted. The sentence says what it must be, as `must be …`."""
