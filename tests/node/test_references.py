"""References of cloned voices on a node: fetched once, private, deleted on request."""

import io
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
import soundfile

from demo.tiny_voices import zipvoice
from myna.wire.farm import JobReference
from tests.rig.commands import CommandLine
from tests.rig.compute_node import ComputeNode
from tests.rig.farm_site import FarmSite
from tests.rig.samples import write_voice

TEXT = "你好，世界。"

_numbers = itertools.count()


@pytest.fixture(scope="module")
def farm_site() -> Iterator[FarmSite]:
    """One service for all tests of this file. Each test has its own reference."""
    site = FarmSite()
    site.poll_max_s = 0.2
    yield site
    site.stop()


@pytest.fixture(scope="module")
def cloner(
    farm_site: FarmSite, commands: CommandLine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ComputeNode]:
    """A running node that clones."""
    folder = tmp_path_factory.mktemp("cloner")
    toml = f'slots = 2\n[[engine]]\nkind = "sherpa"\nfolder = "{zipvoice(folder / "model")}"\n'
    node = ComputeNode(folder / "node", commands, toml).join(farm_site.url, farm_site.token)
    yield node.start()
    node.kill()


@pytest.fixture
def reference(farm_site: FarmSite, tmp_path: Path) -> JobReference:
    seconds = 4 + next(_numbers) / 10
    wav = write_voice(tmp_path / "sample.wav", seconds).read_bytes()
    return farm_site.keep_reference(wav, "你好世界三点", "zh-CN")


def kept(cloner: ComputeNode, reference: JobReference) -> bool:
    return f"{reference.sha256}.wav" in cloner.files("references")


def wait_reported(farm_site: FarmSite, reference: JobReference, reported: bool = True) -> None:
    """Waits until a poll of the node reports the reference, or no longer does."""
    names = farm_site.leases
    farm_site.wait(lambda: (reference.sha256 in names[-1].references) is reported, "the reported references")


def test_a_reference_is_fetched_once_for_many_jobs(
    farm_site: FarmSite, cloner: ComputeNode, reference: JobReference
) -> None:
    assert "zh" in farm_site.hellos[-1].clones
    jobs = [farm_site.order(TEXT, "vc_1", reference=reference) for _ in range(3)]
    for job in jobs:
        assert soundfile.info(io.BytesIO(farm_site.wait_completed(job))).format == "MP3"
    farm_site.wait_completed(farm_site.order(TEXT, "vc_1", kind="clone", reference=reference))
    assert farm_site.fetched.count(reference.sha256) == 1


def test_a_reference_is_private_reported_and_kept_across_a_restart(
    farm_site: FarmSite, cloner: ComputeNode, reference: JobReference
) -> None:
    farm_site.wait_completed(farm_site.order(TEXT, "vc_1", reference=reference))
    folder = cloner.data / "references"
    path = folder / f"{reference.sha256}.wav"
    assert path.read_bytes() == farm_site.references[reference.sha256]
    assert (path.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o600, 0o700)
    wait_reported(farm_site, reference)

    (folder / ".half.part").write_bytes(b"of a crash")
    assert cloner.stop() == 0
    cloner.start()
    farm_site.wait_completed(farm_site.order(TEXT, "vc_1", reference=reference))
    assert farm_site.fetched.count(reference.sha256) == 1
    assert kept(cloner, reference)
    assert ".half.part" not in cloner.files("references")


def test_a_reference_named_in_forget_is_deleted(
    farm_site: FarmSite, cloner: ComputeNode, reference: JobReference
) -> None:
    farm_site.wait_completed(farm_site.order(TEXT, "vc_1", reference=reference))
    wait_reported(farm_site, reference)
    farm_site.forget = [reference.sha256]
    cloner.wait(lambda: not kept(cloner, reference), "the reference is deleted")
    wait_reported(farm_site, reference, False)


@pytest.mark.parametrize("fault", ["cut", "status:500"])
def test_a_failed_fetch_of_a_reference_is_retried(
    farm_site: FarmSite, cloner: ComputeNode, reference: JobReference, fault: str
) -> None:
    farm_site.faults["reference"] += [fault]
    farm_site.wait_completed(farm_site.order(TEXT, "vc_1", reference=reference))


def test_a_reference_with_another_hash_is_rejected(
    farm_site: FarmSite, cloner: ComputeNode, reference: JobReference
) -> None:
    wav = farm_site.references[reference.sha256]
    farm_site.references[reference.sha256] = wav[:-1] + bytes([wav[-1] ^ 1])
    job = farm_site.order(TEXT, "vc_1", reference=reference)
    assert not farm_site.wait_failed(job).final
    assert not kept(cloner, reference)


def test_a_reference_larger_than_announced_is_rejected(
    farm_site: FarmSite, cloner: ComputeNode, reference: JobReference
) -> None:
    farm_site.references[reference.sha256] *= 2
    job = farm_site.order(TEXT, "vc_1", reference=reference)
    assert not farm_site.wait_failed(job).final
    assert not kept(cloner, reference)


@pytest.mark.parametrize("name", ["../../escaped", "a" * 63, ""])
def test_a_reference_cannot_name_a_file_outside_the_folder(
    farm_site: FarmSite, cloner: ComputeNode, name: str
) -> None:
    said, before = len(cloner.messages("does not follow this protocol")), cloner.files("references")
    farm_site.order(
        TEXT, "vc_1", reference=JobReference(sha256=name, size_bytes=10, transcript="你好", language="zh")
    )
    cloner.wait(lambda: len(cloner.messages("does not follow this protocol")) > said, "the node refuses it")
    assert name not in farm_site.fetched
    assert cloner.files("references") == before


def test_a_reference_in_an_unsupported_language_is_no_final_failure(
    farm_site: FarmSite, cloner: ComputeNode, reference: JobReference
) -> None:
    wav = farm_site.references[reference.sha256]
    job = farm_site.order(TEXT, "vc_1", reference=farm_site.keep_reference(wav, "hallo", "de"))
    assert not farm_site.wait_failed(job).final
