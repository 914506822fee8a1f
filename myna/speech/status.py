"""The status of a speech task as text for users. The text of a failed task never contains the stored reason,
which is for the operator: it may be a message of a node or the name of an exception."""

from myna.store.batch import TaskStatus
from myna.store.queries.tasks import TaskRow

TEXTS = {
    "zh": ("排队中", "处理中", "已完成", "失败"),
    "en": ("queued", "processing", "completed", "failed"),
}
FAILED = {
    "zh": "{failed}：{why}，已退还所扣点数",
    "en": "{failed}: {why}; the units were refunded",
}
"""A task fails in the transaction that refunds its call, so every failed task was refunded."""
WHY = {
    "no compute node finished it": ("没有计算节点完成合成", "no compute node finished it"),
    "not done in time": ("未能按时完成", "it was not done in time"),
    "left open": ("服务中断", "the service was interrupted"),
    "the voice was deleted": ("音色已删除", "the voice was deleted"),
    "the caller stopped waiting": ("请求已取消", "the request was cancelled"),
    "the caller had gone": ("请求已取消", "the request was cancelled"),  # stored by earlier versions
    "CancelledError": ("请求已取消", "the request was cancelled"),
    "UpstreamFailed": ("语音渠道失败", "the speech channels failed"),
    "RequestRefused": ("语音渠道失败", "the speech channels failed"),
}
"""Chinese and English text by stored reason."""
OTHERWISE = ("无法合成", "the speech could not be made")


def status_text(row: TaskRow, language: str) -> str:
    """`language` is `zh` or `en`."""
    text = TEXTS[language][row.status]
    if row.status == TaskStatus.FAILED:
        chinese, english = WHY.get(row.reason, OTHERWISE)
        return FAILED[language].format(failed=text, why=chinese if language == "zh" else english)
    if row.status == TaskStatus.PROCESSING and row.progress:
        return f"{text} {row.progress}%"
    return text
