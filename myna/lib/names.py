"""Which names are stored: of accounts, keys, channels, models, nodes and voices, by whichever way they come.

A name is shown in tables, logs and terminals, and is typed to confirm a removal. So it is one line of
printable characters: no control character, line break or direction mark can hide in it.
"""

from myna.errors import CommandError

MODEL_MAX_CHARS = 200


def is_name(text: str, chars_max: int) -> bool:
    """Whether the text can be a name: a line that is not blank."""
    return bool(text.strip()) and is_line(text, chars_max)


def is_line(text: str, chars_max: int) -> bool:
    """Whether the text is one line of printable characters, or empty."""
    return len(text) <= chars_max and text.isprintable()


def check_name(text: str, chars_max: int, field: str = "name") -> None:
    """Raises CommandError if the text can't be a name."""
    if not is_name(text, chars_max):
        raise CommandError("A name has 1 to {chars_max} printable characters.", field, chars_max=chars_max)


def check_model(text: str, field: str = "model") -> None:
    """Raises CommandError if no channel can be asked for this model; "" is the channel's own, or any."""
    if not is_line(text, MODEL_MAX_CHARS):
        raise CommandError(
            "The name of a model has at most {chars_max} printable characters.",
            field,
            chars_max=MODEL_MAX_CHARS,
        )
