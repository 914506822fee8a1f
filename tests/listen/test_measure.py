"""A run that was interrupted is resumed: what was heard is neither spoken nor transcribed again."""

from pathlib import Path

import msgspec
import pytest

from listen import measure
from listen.measure import Job, remaining
from listen.results import PLAIN, Heard
from listen.sentences import EVERYDAY, of_group
from listen.speakers import ESPEAK, KOKORO, Voice
from myna.errors import CommandError

VOICE, ANOTHER = Voice("zf_a", "A", "zh-CN"), Voice("zf_b", "B", "zh-CN")


@pytest.mark.slow  # the versions of the packages are part of a run, and only the slow tests have them
def test_a_sentence_that_was_heard_is_not_spoken_again(tmp_path: Path) -> None:
    found = measure.begun(tmp_path)
    first, second = of_group(EVERYDAY, 2)
    found.heard.append(Heard(KOKORO, "zf_a", EVERYDAY, first.text, "", 0, 17, 1, 1, 1, 1, -18))
    heard = Job(KOKORO, VOICE, first)
    others = [
        heard._replace(sentence=second),
        heard._replace(voice=ANOTHER),
        heard._replace(family=PLAIN),
        heard._replace(family=ESPEAK),
    ]
    assert remaining([heard, *others], found) == others


@pytest.mark.slow
def test_results_of_another_commit_are_not_resumed(tmp_path: Path) -> None:
    found = measure.begun(tmp_path)
    found.machine = msgspec.structs.replace(found.machine, commit="another")
    with pytest.raises(CommandError, match="the results are of commit another, and this is "):
        next(measure.measure(tmp_path, "espeak", 1, before=found))
