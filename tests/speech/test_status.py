"""`status_text` of a failed task: a known reason and that it was refunded, nothing else."""

import pytest

from myna.farm.tasks import TRIES_EXHAUSTED
from myna.speech.status import OTHERWISE, WHY, status_text
from myna.store.queries.clones import VOICE_DELETED
from myna.store.queries.tasks import TaskRow


def task(status: int, reason: str = "", progress: int = 0) -> TaskRow:
    return TaskRow(
        id=1, status=status, text="你好", chars=2, audio="", created_at=0, progress=progress, reason=reason
    )


@pytest.mark.parametrize("reason", WHY)
def test_a_known_reason_is_a_sentence_that_mentions_the_refund(reason: str) -> None:
    chinese, english = WHY[reason]
    assert status_text(task(3, reason), "zh") == f"失败：{chinese}，已退还所扣点数"
    assert status_text(task(3, reason), "en") == f"failed: {english}; the units were refunded"


@pytest.mark.parametrize("reason", ["", "RuntimeError", "sk-secret at http://10.0.0.1", "no such sound"])
def test_an_unknown_reason_is_not_shown(reason: str) -> None:
    assert status_text(task(3, reason), "en") == f"failed: {OTHERWISE[1]}; the units were refunded"
    assert status_text(task(3, reason), "zh") == f"失败：{OTHERWISE[0]}，已退还所扣点数"


def test_the_reasons_that_are_stored_are_known() -> None:
    assert {TRIES_EXHAUSTED, VOICE_DELETED} <= WHY.keys()


def test_a_task_that_has_not_failed_shows_its_status() -> None:
    assert [status_text(task(status, "not done in time"), "en") for status in range(3)] == [
        *("queued", "processing", "completed")
    ]
    assert status_text(task(1, progress=40), "zh") == "处理中 40%"
