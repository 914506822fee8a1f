"""References of cloned voices on a node: fetched once, private, deleted on request."""

import asyncio
import io
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import soundfile

from demo.tiny_voices import zipvoice
from myna.wire.farm import Job, JobReference
from tests.node.conftest import NodeWith
from tests.node.local_node import LocalNode, happens, local_node
from tests.rig.farm_site import FarmSite, key_of
from tests.rig.samples import write_voice

TEXT = "你好，世界。"
WAV = b"a recording" * 100
ZH = ("zh",)


def test_a_reference_is_fetched_once_for_many_jobs_and_private(
    farm_site: FarmSite, joined: NodeWith, tmp_path: Path
) -> None:
    """On a node that clones, whose processes may read the folder of the references."""
    toml = f'slots = 2\n[[engine]]\nkind = "sherpa"\nfolder = "{zipvoice(tmp_path / "model")}"\n'
    node = joined(toml).start()
    assert "zh" in farm_site.hellos[-1].clones
    wav = write_voice(tmp_path / "sample.wav", 4).read_bytes()
    reference = farm_site.keep_reference(wav, "你好世界三点", "zh-CN")
    jobs = [farm_site.order(TEXT, "vc_1", reference=reference) for _ in range(2)]
    jobs.append(farm_site.order(TEXT, "vc_1", kind="clone", reference=reference))
    for job in jobs:
        assert soundfile.info(io.BytesIO(farm_site.wait_completed(job))).format == "MP3"
    assert farm_site.fetched == [reference.sha256]
    folder = node.data / "references"
    path = folder / f"{reference.sha256}.wav"
    assert (path.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o600, 0o700)


# ---- with an engine that speaks nothing


@pytest.fixture
async def cloner(
    farm_site: FarmSite, tmp_path: Path, quick_retries: None, caplog: pytest.LogCaptureFixture
) -> AsyncIterator[LocalNode]:
    """A node that clones Chinese voices."""
    caplog.set_level(logging.INFO, "myna.node")
    farm_site.poll_max_s = 0.1
    async with local_node(farm_site, tmp_path, clones=ZH) as opened:
        yield opened


@pytest.fixture
def reference(farm_site: FarmSite) -> JobReference:
    return farm_site.keep_reference(WAV, "你好世界三点", "zh-CN")


async def spoken(site: FarmSite, reference: JobReference) -> None:
    """Waits until a job in this voice is completed."""
    job = site.order(TEXT, "vc_1", reference=reference)
    await happens(lambda: key_of(job) in site.completed, "the job is completed")


async def failed(site: FarmSite, job: Job) -> bool:
    """Waits until the failure of the job is reported. Whether it is final."""
    await happens(lambda: bool(site.failures_of(job)), "the failure is reported")
    return site.failures_of(job)[0].final


async def reported(site: FarmSite, names: list[str]) -> None:
    """Waits until a poll of the node reports these references."""
    await happens(lambda: site.leases[-1].references == names, f"the node reports {names}")


async def test_a_reference_is_reported_and_kept_across_a_restart(
    farm_site: FarmSite, cloner: LocalNode, reference: JobReference, tmp_path: Path
) -> None:
    await spoken(farm_site, reference)
    path = tmp_path / "references" / f"{reference.sha256}.wav"
    assert cloner.engine.spoken[-1].reference is not None
    assert cloner.engine.spoken[-1].reference.wav == path
    assert path.read_bytes() == WAV
    await reported(farm_site, [reference.sha256])

    path.with_name(".half.part").write_bytes(b"of a crash")
    cloner.signals.receive()
    await cloner.running
    await asyncio.to_thread(farm_site.stop)  # an open poll would take the next job
    farm_site.start()
    async with local_node(farm_site, tmp_path, clones=ZH) as again:
        await spoken(farm_site, reference)
        assert again.files("references") == [path.name]
    assert farm_site.fetched == [reference.sha256]


async def test_a_reference_named_in_forget_is_deleted(
    farm_site: FarmSite, cloner: LocalNode, reference: JobReference
) -> None:
    await spoken(farm_site, reference)
    await reported(farm_site, [reference.sha256])
    farm_site.forget = [reference.sha256]
    await happens(lambda: cloner.files("references") == [], "the reference is deleted")
    await reported(farm_site, [])


@pytest.mark.parametrize("served", [WAV[:-1] + b"!", WAV * 2], ids=["another hash", "larger"])
async def test_a_reference_that_is_not_as_announced_is_rejected(
    farm_site: FarmSite, cloner: LocalNode, reference: JobReference, served: bytes
) -> None:
    farm_site.references[reference.sha256] = served
    assert not await failed(farm_site, farm_site.order(TEXT, "vc_1", reference=reference))
    assert cloner.files("references") == []


@pytest.mark.parametrize("name", ["../../escaped", "a" * 63, ""])
async def test_a_reference_cannot_name_a_file_outside_the_folder(
    farm_site: FarmSite, cloner: LocalNode, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    farm_site.order(
        TEXT, "vc_1", reference=JobReference(sha256=name, size_bytes=10, transcript="你好", language="zh")
    )
    said = "does not follow this protocol"
    await happens(lambda: any(said in line for line in caplog.messages), "the node refuses it")
    assert farm_site.fetched == []
    assert cloner.files("references") == []


async def test_a_reference_in_an_unsupported_language_is_no_final_failure(
    farm_site: FarmSite, cloner: LocalNode
) -> None:
    reference = farm_site.keep_reference(WAV, "hallo", "de")
    assert not await failed(farm_site, farm_site.order(TEXT, "vc_1", reference=reference))
