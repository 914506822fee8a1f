"""The site's disk has less free space than its reserve: a node's audio is taken later."""

from tests.farm.machines import Yard, mp3, new_voice
from tests.rig.service import ServiceMaker

RESERVE = "MYNA_DISK_RESERVE_BYTES"


def test_a_node_keeps_its_audio_until_the_site_has_space(make_service: ServiceMaker) -> None:
    service = make_service(chat_url="parrot:", speech="none").start()
    yard = Yard(service)
    key, voice = service.account(units=1).key().plain, new_voice()
    machine = yard.machine(voice)
    task = yard.order(key, voice)
    job = machine.take()

    service.env[RESERVE] = str(2**50)
    service.restart()
    refused = machine.complete(job, mp3())
    assert refused.status == 503
    assert refused.json["error"]["type"] == "service_unavailable"
    assert refused.json["error"]["message"] == "The server has no space for new audio; send it again later."
    assert refused.headers["retry-after"] == "60"
    assert not yard.audio()
    assert yard.task(key, task)["status"] == 1

    service.env[RESERVE] = "0"
    service.restart()
    assert machine.complete(job, mp3()).status == 200
    assert yard.task(key, task)["status"] == 2
    assert service.command("audit").code == 0
