"""The guards of /farm/v1 and of cloned voices: joining, uploads, owners, admission and polls."""

from tests.mutations.guards import Change, Guard, guard

NODES = "myna/farm/nodes.py"
NODE_ROWS = "myna/store/queries/farm/nodes.py"
SITE_ROWS = "myna/store/queries/config.py"
FARM_AUTH = "myna/api/farm/auth.py"
UPLOAD = "myna/api/farm/uploads.py"
KEYS = "myna/keys.py"
KEY_ROWS = "myna/store/queries/keys.py"
CLONES = "myna/clones.py"
CLONE_ROWS = "myna/store/queries/clones.py"
VOICES = "myna/voices.py"
PLAN = "myna/speech/plan.py"
CAPACITY = "myna/store/queries/farm/capacity.py"
POLLS = "myna/farm/polls.py"
FARM = "myna/api/farm/handlers.py"
TASKS = "myna/farm/tasks.py"

JOINING = "tests/farm/test_joining.py::test_"
UPLOADS = "tests/farm/test_uploads.py::test_"
CLONING = "tests/clones/test_clone.py::test_"
DELETING = "tests/clones/test_delete.py::test_"
CHANGES = "tests/tasks/test_node_changes.py::test_"
QUEUES = "tests/tasks/test_estimates.py::test_"
DISCONNECTS = "tests/tasks/test_disconnects.py::test_"
POLLING = "tests/tasks/test_polls.py::test_"
OWN_VOICES = "tests/tasks/test_own_voices.py::test_"

ANY_CREDENTIAL = ("WHERE credential_hash = $1", "WHERE credential_hash = $1 OR credential_hash IS NOT NULL")

OF_NODES = (
    guard(
        "a join token is used once",
        NODE_ROWS,
        "SET token_hash = NULL, token_until = 0, credential_hash",
        "SET credential_hash",
        JOINING + "unknown_used_and_expired_tokens_get_the_same_refusal[sqlite]",
    ),
    guard(
        "a change of a node's voices is not a change of the configuration",
        SITE_ROWS,
        "CASE WHEN nodes_version = 0 THEN 1 ELSE 0 END",
        "1",
        CHANGES + "chat_does_not_reload_the_configuration_when_voices_of_nodes_change[sqlite]",
    ),
    guard(
        "a node's changes are limited",
        NODE_ROWS,
        "AND changes_until <= now_ms() + $3 RETURNING",
        "AND $3 >= 0 RETURNING",
        CHANGES + "changes_of_a_nodes_voices_are_rate_limited[sqlite]",
        error="Failed",
    ),
    guard(
        "a join token expires",
        NODE_ROWS,
        "WHERE token_hash = $1 AND token_until > now_ms()",
        "WHERE token_hash = $1",
        JOINING + "unknown_used_and_expired_tokens_get_the_same_refusal[sqlite]",
    ),
    guard(
        "a token of a joined node requires a new enrollment",
        NODE_ROWS,
        "WHERE nodes.credential_hash IS NULL OR CAST($4 AS BIGINT) = 1",
        "WHERE CAST($4 AS BIGINT) >= 0",
        JOINING + "a_credential_is_valid_until_its_node_joins_again[sqlite]",
    ),
    guard(
        "a credential belongs to one node",
        NODE_ROWS,
        *ANY_CREDENTIAL,
        JOINING + "a_credential_is_valid_until_its_node_joins_again[sqlite]",
    ),
    guard(
        "a disabled node is refused",
        NODES,
        "if node.disabled_at:\n            raise",
        "if False:\n            raise",
        JOINING + "a_disabled_node_is_refused_until_it_is_enabled[sqlite]",
    ),
    Guard(
        "an API key is not valid for /farm/v1",
        (
            Change(NODES, "(mynanode_[0-9a-f]{40}) *", "(myna[a-z]*_[0-9a-f]{40}) *"),
            Change(NODE_ROWS, *ANY_CREDENTIAL),
        ),
        JOINING + "a_credential_is_for_the_farm_and_a_key_for_v1[sqlite]",
    ),
    Guard(
        "a node credential is not valid for /v1",
        (
            Change(KEYS, "(myna_[0-9a-f]{40}) *", "(myna[a-z]*_[0-9a-f]{40}) *"),
            Change(KEY_ROWS, "WHERE k.hash = $1", "WHERE k.hash = $1 OR k.revoked_at = 0"),
        ),
        JOINING + "a_credential_is_for_the_farm_and_a_key_for_v1[sqlite]",
    ),
    guard(
        "the protocol version is checked",
        FARM_AUTH,
        "if request.header(PROTOCOL_HEADER.encode()) != str(PROTOCOL).encode():",
        "if False:",
        JOINING + "another_protocol_version_is_426_before_any_other_check[sqlite-lease-spoken0]",
    ),
)

# Without its guard an upload waits for bytes that these tests never send: the wait is made short.
SHORT_PATIENCE = Change(UPLOAD, "PATIENCE_S = 30.0", "PATIENCE_S = 1.0")

OF_UPLOADS = (
    Guard(
        "an upload: requires the lease",
        (
            Change(
                UPLOAD,
                "if not await self._node_auth.in_time(self._tasks.has_lease(node.id, headers.lease)):",
                "if False:",
            ),
            SHORT_PATIENCE,
        ),
        UPLOADS + "an_upload_with_an_expired_lease_is_refused_before_its_body[sqlite]",
    ),
    guard(
        "an upload: one per lease",
        UPLOAD,
        "if lease in self._leases:",
        "if False:",
        UPLOADS + "a_job_has_one_upload_at_a_time[sqlite]",
    ),
    guard(
        "an upload: limit of bytes per node",
        UPLOAD,
        "if self._bytes[node_id] + size_bytes > NODE_BYTES_MAX:",
        "if False:",
        UPLOADS + "bytes_in_upload_per_node_are_limited[sqlite]",
    ),
    guard(
        "an upload: SHA-256",
        UPLOAD,
        "if file.sha256 != headers.sha256:",
        "if False:",
        UPLOADS + "an_invalid_upload_is_refused_and_the_lease_continues[sqlite-other hash]",
    ),
    guard(
        "an upload: requires Content-Length",
        UPLOAD,
        "if not size_bytes:",
        "if size_bytes == 0:",
        UPLOADS + "an_upload_without_length_or_over_the_limit_is_refused_unread[sqlite]",
    ),
    Guard(
        "an upload: size limit",
        (Change(UPLOAD, "if size_bytes > AUDIO_MAX_BYTES:", "if False:"), SHORT_PATIENCE),
        UPLOADS + "an_upload_without_length_or_over_the_limit_is_refused_unread[sqlite]",
    ),
    guard(
        "an upload: valid audio",
        UPLOAD,
        "await self._inspect(file, node_id)",
        "pass",
        UPLOADS + "an_invalid_upload_is_refused_and_the_lease_continues[sqlite-noise]",
    ),
    guard(
        "an upload: the file of an expired lease is deleted",
        UPLOAD,
        "await self._audio.discard(audio.name)\n            raise",
        "raise",
        UPLOADS + "an_upload_whose_lease_expires_is_409_and_its_file_is_removed[sqlite]",
    ),
    guard(
        "an upload: a duplicate file is deleted",
        UPLOAD,
        "if not in_use:",
        "if False:",
        UPLOADS + "a_repeated_upload_succeeds_and_leaves_one_file[sqlite]",
    ),
)

OF_VOICES = (
    guard(
        "a cloned voice belongs to its account",
        CLONE_ROWS,
        "WHERE c.account_id = $1 AND c.{READY} ORDER BY",
        "WHERE $1 > 0 AND c.{READY} ORDER BY",
        OWN_VOICES + "a_cloned_voice_is_usable_only_by_its_account[sqlite]",
        "Failed",
    ),
    guard(
        "a cloned voice is ready",
        CLONE_ROWS,
        "WHERE c.account_id = $1 AND c.{READY} ORDER BY",
        "WHERE c.account_id = $1 ORDER BY",
        OWN_VOICES + "a_pending_voice_is_unknown_to_its_account[sqlite]",
        "Failed",
    ),
    guard(
        "a node online clones the voice's language",
        VOICES,
        "for row in config.node_clones if row.language == clone.language}",
        "for row in config.node_clones}",
        OWN_VOICES + "a_cloned_voice_without_an_online_node_is_refused_uncharged[sqlite]",
        "Failed",
    ),
    guard(
        "a voice without an online node is not listed",
        VOICES,
        "for clone in clones if _cloning_nodes(clone, config, nodes)]",
        "for clone in clones]",
        OWN_VOICES + "a_cloned_voice_is_listed_while_an_online_node_clones_its_language[sqlite]",
    ),
    guard(
        "a deleted voice: queued tasks are refunded",
        CLONE_ROWS,
        "outcomes = await db.end(ends) if ends else []",
        "outcomes: list[EndOutcome] = []",
        DELETING + "tasks_that_wait_for_a_deleted_voice_fail_and_are_refunded[sqlite]",
    ),
    guard(
        "a deleted voice: leased tasks are refunded",
        CLONE_ROWS,
        'AND {LEASED}"',
        'AND {LEASED} AND status = 9"',
        DELETING + "tasks_that_wait_for_a_deleted_voice_fail_and_are_refunded[sqlite]",
    ),
    guard(
        "a deleted voice: tasks of the service itself are left",
        CLONE_ROWS,
        'AND {LEASED}"',
        'AND status = 1"',
        DELETING + "deleting_a_voice_leaves_tasks_of_the_service_itself[sqlite]",
    ),
    guard(
        "a deleted voice: the preview is deleted",
        CLONES,
        "if deleted.preview:",
        "if False:",
        DELETING + "deleting_while_a_node_completes_the_voice_leaves_nothing[sqlite]",
    ),
    guard(
        "a deleted voice: the sample is deleted",
        CLONES,
        "await asyncio.to_thread(samples.delete, deleted.sample)",
        "pass",
        DELETING + "a_deleted_voice_leaves_no_row_no_sample_and_no_preview[sqlite]",
    ),
    Guard(
        "consent is required",
        (
            Change(CLONES, "if not request.consent_by:", "if False:"),
            Change(
                CLONES,
                '_check_line("The name of the person who consents", request',
                '_check_line("", "x" or request',
            ),
        ),
        CLONING + "without_consent_nothing_is_stored_and_the_error_has_the_statement[sqlite]",
        "Failed",
    ),
    guard(
        "the error has the consent statement",
        CLONES,
        "if not request.consent_by:",
        "if False:",
        CLONING + "without_consent_nothing_is_stored_and_the_error_has_the_statement[sqlite]",
    ),
    guard(
        "limit of voices per account",
        CLONE_ROWS,
        "if await count(db, new.account_id) >= most:",
        "if False:",
        CLONING + "concurrent_clones_do_not_exceed_the_limit[sqlite]",
    ),
)

OF_THE_QUEUE = (
    guard(
        "a task with a too long estimated wait is refused",
        PLAN,
        "> plan.request.node_s:",
        "> 9e9:",
        QUEUES + "an_order_over_the_capacity_is_refused_and_another_accounts_first_is_not[sqlite]",
        "Failed",
    ),
    guard(
        "the estimate assumes round robin",
        "myna/farm/capacity.py",
        "share = min(1.0, rounds / tasks[row.account_id])",
        "share = 1.0",
        QUEUES + "an_order_over_the_capacity_is_refused_and_another_accounts_first_is_not[sqlite]",
        "NoSpeechChannel",
    ),
    guard(
        "a silent node is not online",
        CAPACITY,
        "heard_at > now_ms() - $1",
        "heard_at > 0 * $1",
        QUEUES + "without_an_online_node_nothing_is_charged[sqlite]",
        "Failed",
    ),
    guard(
        "disabled and draining nodes have no capacity",
        CAPACITY,
        "disabled_at = 0 AND draining = 0 AND slots",
        "slots",
        QUEUES + "disabled_draining_and_offline_nodes_have_no_capacity[sqlite]",
    ),
)

OF_POLLS = (
    guard(
        "a lease whose client disconnects at the same moment",
        FARM,
        "if found and disconnected.done():",
        "if False:",
        DISCONNECTS + "a_job_is_requeued_if_its_client_disconnects_during_the_lease[sqlite]",
    ),
    guard(
        "a lease whose client disconnects afterwards",
        FARM,
        "if found:\n                await self._tasks.requeue",
        "if False:\n                await self._tasks.requeue",
        DISCONNECTS + "a_job_is_requeued_if_its_client_disconnects_after_the_lease[sqlite]",
        error="TimeoutError",
    ),
    guard(
        "a lease of an ended poll",
        POLLS,
        "elif jobs:  # the poll ended meanwhile",
        "elif False:",
        POLLING + "a_job_is_requeued_if_its_poll_ends_during_the_lease[sqlite]",
        error="TimeoutError",
    ),
    guard(
        "a lease of a cancelled poll",
        POLLS,
        "if poll.result.done() and not poll.result.exception():",
        "if False:",
        DISCONNECTS + "a_job_is_requeued_if_its_poll_is_cancelled_as_it_is_leased[sqlite]",
        error="TimeoutError",
    ),
    guard(
        "a cancelled lease",
        TASKS,
        "await self.requeue(node_id, found)\n                raise",
        "raise",
        DISCONNECTS + "a_job_is_requeued_if_its_lease_is_cancelled[sqlite-True]",
        error="TimeoutError",
    ),
)

OF_THE_FARM = (*OF_NODES, *OF_UPLOADS, *OF_VOICES, *OF_THE_QUEUE, *OF_POLLS)
