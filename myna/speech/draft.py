"""An answer that is written before what it tells of is known: the task's id, and the name of its audio.

It is stored with the charge, so that whoever completes the task can store the answer, in the same
transaction, for a copy of the request.
"""

import secrets
from collections.abc import Callable

from myna.store.batch import AUDIO_MARK, TASK_MARK

_FAR_OFF = 2**52
"""No task has an id as high as those that stand in for one."""


def draft(answer: Callable[[int, str], str]) -> str:
    """The answer with marks in place of the task's id and its audio's name. The marks can't stand in JSON, so
    stand-ins that nobody can guess are encoded and replaced."""
    task_id, name = _FAR_OFF + secrets.randbelow(_FAR_OFF), secrets.token_hex(32)
    return answer(task_id, name).replace(str(task_id), TASK_MARK).replace(name, AUDIO_MARK)


def filled(text: str, task_id: int, audio: str = "") -> str:
    """The answer itself."""
    return text.replace(TASK_MARK, str(task_id)).replace(AUDIO_MARK, audio)
