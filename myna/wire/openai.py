"""Requests and responses of /openai/v1, as far as the service reads or makes them.

Source: the reference of OpenAI's API. Fields that are not here pass through.
"""

from msgspec import Struct


class OpenAIErrorBody(Struct, frozen=True):
    """`param` is the field at fault, `code` a word that programs compare."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIError(Struct, frozen=True):
    """The envelope of every error below /openai/v1."""

    error: OpenAIErrorBody
