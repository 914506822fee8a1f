"""Recordings that a node is given to speak like: fetched once, kept private, forgotten when told."""

import io
from pathlib import Path

import pytest
import soundfile

from demo.tiny_voices import zipvoice
from myna.wire.farm import Reference
from tests.node.conftest import NodeWith
from tests.rig.compute_node import ComputeNode
from tests.rig.farm_site import FarmSite
from tests.rig.samples import write_voice

TEXT = "你好，世界。"


@pytest.fixture
def cloner(joined: NodeWith, tmp_path: Path) -> ComputeNode:
    """A node that clones, and has the embedded voices too."""
    folder = zipvoice(tmp_path / "zip")
    return joined(
        f'slots = 2\n[[engine]]\nkind = "espeak"\n[[engine]]\nkind = "sherpa"\nfolder = "{folder}"\n'
    )


@pytest.fixture
def reference(farm_site: FarmSite, tmp_path: Path) -> Reference:
    wav = write_voice(tmp_path / "sample.wav").read_bytes()
    return farm_site.keep_reference(wav, "你好世界三点", "zh-CN")


def test_a_cloned_voice_is_spoken_from_its_recording_fetched_once(
    farm_site: FarmSite, cloner: ComputeNode, reference: Reference
) -> None:
    cloner.start()
    assert "zh" in farm_site.hellos[0].clones
    jobs = [farm_site.order(TEXT, "vc_1", reference=reference) for _ in range(3)]
    for job in jobs:
        assert soundfile.info(io.BytesIO(farm_site.wait_completed(job))).format == "MP3"
    farm_site.wait_completed(farm_site.order(TEXT, "vc_1", kind="clone", reference=reference))
    assert farm_site.fetched == 1


def test_a_recording_is_its_owners_alone_and_reported_and_kept_over_a_restart(
    farm_site: FarmSite, cloner: ComputeNode, reference: Reference
) -> None:
    farm_site.poll_max_s = 0.2
    cloner.start()
    farm_site.wait_completed(farm_site.order(TEXT, "vc_1", reference=reference))
    folder = cloner.data / "references"
    (path,) = folder.iterdir()
    assert path.name == f"{reference.sha256}.wav"
    assert path.read_bytes() == farm_site.references[reference.sha256]
    assert (path.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o600, 0o700)
    farm_site.wait(lambda: farm_site.leases[-1].references == [reference.sha256], "it is reported")

    (folder / ".half.part").write_bytes(b"of a crash")
    assert cloner.stop() == 0
    cloner.start()
    farm_site.wait_completed(farm_site.order(TEXT, "vc_1", reference=reference))
    assert farm_site.fetched == 1
    assert cloner.files("references") == [path.name]


def test_a_recording_that_the_site_names_is_deleted(
    farm_site: FarmSite, cloner: ComputeNode, reference: Reference
) -> None:
    farm_site.poll_max_s = 0.2
    cloner.start()
    farm_site.wait_completed(farm_site.order(TEXT, "vc_1", reference=reference))
    farm_site.wait(lambda: farm_site.leases[-1].references == [reference.sha256], "it is reported")
    farm_site.forget = [reference.sha256]
    cloner.wait(lambda: cloner.files("references") == [], "the recording is gone")
    farm_site.wait(lambda: farm_site.leases[-1].references == [], "it isn't reported any more")


@pytest.mark.parametrize("fault", ["cut", "status:500"])
def test_a_recording_that_does_not_come_is_asked_for_again(
    farm_site: FarmSite, cloner: ComputeNode, reference: Reference, fault: str
) -> None:
    farm_site.faults["reference"] += [fault]
    cloner.start()
    farm_site.wait_completed(farm_site.order(TEXT, "vc_1", reference=reference))


def test_another_recording_than_the_announced_one_is_never_spoken_like(
    farm_site: FarmSite, cloner: ComputeNode, reference: Reference
) -> None:
    wav = farm_site.references[reference.sha256]
    farm_site.references[reference.sha256] = wav[:-1] + bytes([wav[-1] ^ 1])
    cloner.start()
    farm_site.order(TEXT, "vc_1", reference=reference)
    farm_site.wait(lambda: bool(farm_site.failed), "the failure is reported")
    assert not farm_site.failed[0].final
    assert cloner.files("references") == []


def test_a_recording_larger_than_announced_is_not_read(
    farm_site: FarmSite, cloner: ComputeNode, reference: Reference
) -> None:
    farm_site.references[reference.sha256] *= 2
    cloner.start()
    farm_site.order(TEXT, "vc_1", reference=reference)
    farm_site.wait(lambda: bool(farm_site.failed), "the failure is reported")
    assert cloner.files("references") == []


@pytest.mark.parametrize("name", ["../../escaped", "a" * 63, ""])
def test_a_site_cannot_name_a_file_outside_the_folder(
    farm_site: FarmSite, cloner: ComputeNode, name: str
) -> None:
    cloner.start()
    farm_site.order(TEXT, "vc_1", reference=Reference(name, 10, "你好", "zh"))
    cloner.wait_said("none of this protocol")
    assert farm_site.fetched == 0
    assert cloner.files("references") == []


def test_a_language_that_no_engine_clones_in_may_be_another_nodes(
    farm_site: FarmSite, cloner: ComputeNode, reference: Reference
) -> None:
    cloner.start()
    wav = farm_site.references[reference.sha256]
    farm_site.order(TEXT, "vc_1", reference=farm_site.keep_reference(wav, "hallo", "de"))
    farm_site.wait(lambda: bool(farm_site.failed), "the failure is reported")
    assert not farm_site.failed[0].final
