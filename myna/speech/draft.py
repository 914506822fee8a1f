"""Drafts of responses, with placeholders for the task's id and the name of its audio.

A draft is stored with the charge. The transaction that completes the task fills it in and stores the
response for retries of the request.
"""

import secrets
from collections.abc import Callable

from myna.store.batch import AUDIO_PLACEHOLDER, TASK_PLACEHOLDER

_PLACEHOLDER_IDS = 2**52
"""Above every task id."""


def draft(answer: Callable[[int, str], str]) -> str:
    """The response with placeholders. A placeholder is not valid in JSON, so random values are encoded first
    and then replaced."""
    task_id, name = _PLACEHOLDER_IDS + secrets.randbelow(_PLACEHOLDER_IDS), secrets.token_hex(32)
    return answer(task_id, name).replace(str(task_id), TASK_PLACEHOLDER).replace(name, AUDIO_PLACEHOLDER)


def filled(text: str, task_id: int, audio: str = "") -> str:
    """The response of a draft."""
    return text.replace(TASK_PLACEHOLDER, str(task_id)).replace(AUDIO_PLACEHOLDER, audio)
