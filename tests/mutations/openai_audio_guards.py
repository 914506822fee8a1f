"""The guards of /openai/v1/audio: when speech that is sent while it is spoken is kept, and when refunded."""

from tests.mutations.guards import guard

DELIVERY = "myna/speech/delivery.py"
STREAMED = "myna/speech/streamed.py"
SPEECH_SERVER = "myna/engines/openai/engine.py"
STREAM = "tests/openai_audio/test_stream.py::test_"
SERVER = "tests/openai_audio/test_speech_server.py::test_"
TRANSCRIPTIONS = "tests/openai_audio/test_transcriptions.py::test_"

OF_OPENAI_AUDIO = (
    guard(
        "a client that left before a sound does not pay",
        DELIVERY,
        "if self._stream.disconnected and not self._stream.sent:",
        "if False:",
        f"{STREAM}a_client_that_leaves_before_a_sound_is_refunded",
    ),
    guard(
        "the end of the sound waits for the keep",
        "myna/speech/sound_stream.py",
        "ready = len(unsent) - TAIL_BYTES",
        "ready = len(unsent)",
        f"{STREAM}the_last_bytes_leave_after_the_keep",
    ),
    guard(
        "a broken stream is kept only if the site says so",
        DELIVERY,
        "if not self._keep_broken or not self.begun or",
        "if not self.begun or",
        f"{STREAM}an_engine_that_fails_after_a_sound_is_refunded_and_the_connection_is_closed[failure0]",
    ),
    guard(
        "a broken stream that is kept has a reason",
        "myna/speech/synthesize.py",
        'reason=StreamFailed.__name__ if broken else ""',
        'reason=""',
        f"{STREAM}an_engine_that_fails_after_a_sound_is_kept_with_that_sound_if_the_site_says_so",
    ),
    guard(
        "a sound over the limit is not kept",
        DELIVERY,
        "_NEVER_KEPT = CallerDisconnected | SoundTooLong",
        "_NEVER_KEPT = CallerDisconnected",
        f"{STREAM}a_sound_over_the_limit_is_refunded_also_where_broken_streams_are_kept",
    ),
    guard(
        "a part that would be held back is no sound that was sent",
        SPEECH_SERVER,
        "_HEAD_BYTES: Final = 2048",
        "_HEAD_BYTES: Final = 1024",
        f"{SERVER}a_server_that_sends_no_sound_is_an_error_and_refunded[sent3]",
    ),
    guard(
        "a text of several requests has one deadline",
        SPEECH_SERVER,
        "left_s = ends_at - asyncio.get_running_loop().time()",
        "left_s = 60.0",
        f"{SERVER}the_second_request_of_a_text_has_the_deadline_of_the_first",
    ),
    guard(
        "a kept broken stream counts against its channel",
        "myna/speech/synthesize.py",
        "if listener is not None and listener.failure is not None:",
        "if False:",
        f"{SERVER}a_server_that_always_breaks_off_opens_its_circuit[keep]",
    ),
    guard(
        "a broken stream has no end",
        STREAMED,
        "if delivery.failure is not None:",
        "if False:",
        f"{STREAM}an_engine_that_fails_after_a_sound_is_kept_with_that_sound_if_the_site_says_so",
    ),
    guard(
        "a transcript is kept",
        "myna/transcription/transcribe.py",
        "            await call.keep(answer.decode())\n",
        "",
        f"{TRANSCRIPTIONS}a_channel_gets_the_recording_and_the_fields_and_its_answer_is_passed_on",
    ),
    guard(
        "a retry is recognised by its fields and its recording",
        "myna/api/openai/multipart.py",
        "digest.update(self.file.sha256 + self.file.name.encode())",
        "pass",
        f"{TRANSCRIPTIONS}a_retry_with_another_boundary_gets_the_stored_transcript",
    ),
)
