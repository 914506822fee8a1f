"""Uploads of nodes while the disk of the service has less free space than its reserve."""

from tests.farm.node_client import NodeSite, mp3, new_voice
from tests.rig.service import ServiceMaker

RESERVE = "MYNA_DISK_RESERVE_BYTES"


def test_audio_is_503_below_the_disk_reserve_and_accepted_later(make_service: ServiceMaker) -> None:
    service = make_service(chat_url="parrot:", speech="none").start()
    site = NodeSite(service)
    key, voice = service.account(units=1).key().plain, new_voice()
    node = site.node(voice)
    task = site.order(key, voice)
    job = node.take()

    service.env[RESERVE] = str(2**50)
    service.restart()
    refused = node.complete(job, mp3())
    assert refused.status == 503
    assert refused.json["error"]["type"] == "service_unavailable"
    assert refused.json["error"]["message"] == "The server has no space for new audio; send it again later."
    assert refused.headers["retry-after"] == "60"
    assert not site.audio()
    assert site.task(key, task)["status"] == 1

    service.env[RESERVE] = "0"
    service.restart()
    assert node.complete(job, mp3()).status == 200
    assert site.task(key, task)["status"] == 2
    assert service.command("audit").code == 0
