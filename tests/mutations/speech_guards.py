"""The guards of the embedded voice: shares of accounts, channels that refuse, deadlines of the disk."""

from tests.mutations.guards import guard

ADMISSION = "myna/engines/pool/admission.py"
POOL = "myna/engines/pool/pool.py"
FILES = "myna/engines/output_file.py"

ADMISSIONS = "tests/engines/test_admission.py::test_"
POOL_QUEUE = "tests/engines/test_pool_queue.py::test_"
FILE_TESTS = "tests/engines/test_output_file.py::test_"

OF_SPEECH = (
    guard(
        "an account has a limited number of slots",
        ADMISSION,
        "if self._counts.get(account, 0) >= self._account_max:",
        "if False:",
        ADMISSIONS + "an_account_at_its_limit_is_refused_alone",
    ),
    guard(
        "the first piece for a listener is spoken alone",
        "myna/engines/kokoro/engine.py",
        "at_once = 1 if client.hear else self._processes",
        "at_once = self._processes",
        "tests/engines/kokoro/test_engine.py::test_the_first_piece_for_a_listener_is_spoken_alone",
    ),
    guard(
        "a slot is released",
        ADMISSION,
        "            self._admission.release(self._account, self._sound_s)\n",
        "",
        ADMISSIONS + "a_released_slot_can_be_acquired_again",
    ),
    guard(
        "a text that would miss its deadline is not charged",
        ADMISSION,
        "> WAIT_SHARE_MAX * within_s",
        "> 1e9 * within_s",
        ADMISSIONS + "a_text_that_would_miss_its_deadline_is_refused",
    ),
    guard(
        "long texts leave a process for short ones",
        POOL,
        "if self._waiting_long and self._long_running < self._long_max:",
        "if self._waiting_long:",
        POOL_QUEUE + "long_jobs_leave_a_process_for_short_ones[asyncio]",
        error="AssertionError",
    ),
    guard(
        "a channel that refused the text is not asked",
        "myna/speech/synthesize.py",
        "if channel.full:",
        "if False:",
        "tests/speech/test_left_to_nodes.py::test_a_channel_that_refused_the_text_is_not_asked",
    ),
    guard(
        "the encoding of a sound has a deadline",
        FILES,
        "            async with asyncio.timeout_at(ends_at):\n                return await self._encode",
        "            async with asyncio.timeout_at(None):\n                return await self._encode",
        FILE_TESTS + "a_sound_on_a_stalled_disk_ends_at_its_deadline",
    ),
    guard(
        "the sync of a file has a deadline",
        FILES,
        "            async with asyncio.timeout_at(ends_at):\n                await self._disk.run",
        "            async with asyncio.timeout_at(None):\n                await self._disk.run",
        FILE_TESTS + "a_stalled_disk_ends_the_call_at_its_deadline",
    ),
)
