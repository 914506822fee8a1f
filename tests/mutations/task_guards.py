"""The guards of tasks: which node leases a job, which may end it, and what requeues it."""

from tests.mutations.guards import GRANTS, Change, Guard, guard

QUEUE = "myna/store/queries/farm/queue.py"
ROWS = "myna/store/queries/tasks.py"
TASKS = "myna/farm/tasks.py"
NODES = "myna/store/queries/farm/nodes.py"

LEASE = "tests/tasks/test_lease.py::test_"
ENDS = "tests/tasks/test_ends.py::test_"
CLOCK = "tests/tasks/test_clock.py::test_"
FAIRNESS = "tests/tasks/test_fairness.py::test_"

PROOF = (
    guard(
        "proof: status",
        QUEUE,
        "{PROCESSING} AND epoch = $2",
        "epoch = $2",
        ENDS + "a_beat_renews_valid_leases_and_names_the_others[sqlite]",
    ),
    guard(
        "proof: epoch",
        QUEUE,
        "{PROCESSING} AND epoch = $2",
        "{PROCESSING} AND (epoch = $2 OR true)",
        ENDS + "a_wrong_epoch_is_stale[postgresql-beat]",
    ),
    guard(
        "proof: token",
        QUEUE,
        "token_hash = $3 AND node_id = $4 AND lease_until",
        "(token_hash = $3 OR true) AND node_id = $4 AND lease_until",
        ENDS + "a_wrong_token_is_stale[postgresql-complete]",
    ),
    guard(
        "proof: node",
        QUEUE,
        "node_id = $4 AND lease_until",
        "(node_id = $4 OR true) AND lease_until",
        ENDS + "another_nodes_job_is_stale[sqlite-fail]",
    ),
    guard(
        "proof: lease",
        QUEUE,
        "node_id = $4 AND lease_until > now_ms()",
        "node_id = $4",
        ENDS + "an_expired_lease_is_stale_before_the_sweep[sqlite-complete]",
    ),
    guard(
        "proof of a completed job: token",
        QUEUE,
        "{COMPLETED} AND epoch = $2 AND token_hash = $3",
        "{COMPLETED} AND epoch = $2 AND (token_hash = $3 OR true)",
        ENDS + "a_completion_with_another_lease_is_stale[sqlite-token]",
    ),
    guard(
        "proof of a completed job: epoch",
        QUEUE,
        "{COMPLETED} AND epoch = $2",
        "{COMPLETED} AND (epoch = $2 OR true)",
        ENDS + "a_completion_with_another_lease_is_stale[sqlite-epoch]",
    ),
    guard(
        "proof of a completed job: node",
        QUEUE,
        'token_hash = $3 AND node_id = $4"',
        'token_hash = $3 AND (node_id = $4 OR true)"',
        ENDS + "a_completion_with_another_lease_is_stale[sqlite-node]",
    ),
    guard(
        "proof of a completed job: audio",
        TASKS,
        "if await queue.completed_with(db, proof, audio.sha256):",
        "if True:",
        ENDS + "another_audio_for_a_completed_task_is_stale[sqlite]",
        "Failed",
    ),
    guard(
        "complete: the proof",
        TASKS,
        "if not await queue.lock_lease(db, proof):\n                if await",
        "if False:\n                if await",
        ENDS + "a_wrong_token_is_stale[sqlite-complete]",
    ),
    guard(
        "fail: the proof",
        TASKS,
        "lock_lease(db, proof):\n                raise StaleLease\n            if not failure",
        "lock_lease(db, proof) and False:\n                raise StaleLease\n            if not failure",
        ENDS + "a_wrong_token_is_stale[sqlite-fail]",
    ),
    guard(
        "the account's lock",
        TASKS,
        "await accounts.lock(db, owner.account_id)",
        "pass",
        ENDS + "the_account_is_locked_before_the_job[fail]",
    ),
)

LEASING = (
    guard(
        "lease: status",
        QUEUE,
        " AND {QUEUED}{in_time}{db.skip_locked})",
        "{in_time}{db.skip_locked})",
        LEASE + "a_job_leased_after_selection_is_not_leased_again[sqlite]",
    ),
    guard(
        "lease: epoch",
        QUEUE,
        "epoch = epoch + 1,",
        "epoch = 1,",
        CLOCK + "a_task_whose_lease_expired_is_requeued[sqlite]",
    ),
    guard(
        "lease: token",
        TASKS,
        "token = secrets.token_hex(16)",
        'token = "0" * 32',
        ENDS + "a_failure_that_is_not_final_requeues_the_task[sqlite]",
    ),
    guard(
        "lease: skips locked rows",
        QUEUE,
        "WHERE id = $1 AND {QUEUED}{in_time}{db.skip_locked})",
        "WHERE id = $1 AND {QUEUED}{in_time})",
        LEASE + "a_locked_job_is_skipped_without_waiting",
        "LockTimedOut",
    ),
    guard(
        "lease: deadline",
        QUEUE,
        "AND {QUEUED}{in_time}{db.skip_locked})",
        "AND {QUEUED}{db.skip_locked})",
        LEASE + "a_job_that_became_overdue_after_selection_is_not_leased[sqlite]",
    ),
    guard(
        "the lease ends with the deadline",
        QUEUE,
        'f"(SELECT min(until) FROM (SELECT deadline AS until UNION ALL {lease_ends}) AS ends)"',
        'f"({lease_ends})"',
        LEASE + "a_lease_never_outlasts_the_deadline[sqlite]",
    ),
    guard(
        "an overdue task is not leased",
        QUEUE,
        "WHERE {QUEUED} AND deadline > (SELECT now_ms())",
        "WHERE status = 0",
        LEASE + "an_overdue_task_is_not_leased_even_before_the_sweep[sqlite]",
    ),
    guard(
        "a disabled node gets no lease",
        QUEUE,
        "n.disabled_at = 0 AND ",
        "",
        LEASE + "a_disabled_node_leases_nothing[sqlite]",
    ),
    guard(
        "a draining node gets no lease",
        QUEUE,
        " AND n.draining = 0",
        "",
        LEASE + "a_draining_node_completes_its_job_and_leases_nothing[sqlite]",
    ),
    guard(
        "a removed node gets no lease",
        QUEUE,
        "WHERE EXISTS (SELECT 1 FROM nodes n WHERE n.id = $1",
        "WHERE $1 = $1 OR EXISTS (SELECT 1 FROM nodes n WHERE n.id = $1",
        LEASE + "a_disabled_node_leases_nothing[sqlite]",
    ),
    guard(
        "lease: the node's voices",
        QUEUE,
        "v.node_id = $1 AND v.voice_id = q.voice_id",
        "v.node_id = $1",
        LEASE + "a_node_leases_only_jobs_in_its_voices[sqlite]",
    ),
    guard(
        "lease: the node's languages",
        QUEUE,
        "ON l.node_id = $1 AND l.language = c.language",
        "ON l.node_id = $1",
        LEASE + "a_new_voice_is_leased_to_a_node_that_clones_its_language[sqlite]",
    ),
    guard(
        "lease: a cloned voice that is ready",
        QUEUE,
        "c.{READY} AND l.node_id = $1",
        "l.node_id = $1",
        LEASE + "a_job_in_a_failed_voice_is_not_leased[sqlite]",
    ),
    guard(
        "round robin of accounts",
        QUEUE,
        "ORDER BY coalesce(u.turn, 0), j.position",
        "ORDER BY j.position",
        FAIRNESS + "leases_are_round_robin_over_accounts[sqlite]",
    ),
    guard(
        "a sample: the lease of the new voice",
        QUEUE,
        "c.{PROCESSING} AND c.node_id = $1",
        "c.status = 0",
        LEASE + "a_sample_is_served_only_under_a_lease_that_needs_it[sqlite]",
    ),
    guard(
        "a sample: the task's lease",
        QUEUE,
        " AND t.lease_until > now_ms()))",
        "))",
        LEASE + "a_sample_is_served_only_under_a_lease_that_needs_it[sqlite]",
    ),
)

REQUEUEING = (
    guard(
        "requeue: token",
        QUEUE,
        "{QUEUED}, token_hash = $2, node_id = 0",
        "{QUEUED}, token_hash = coalesce(token_hash, $2), node_id = 0",
        ENDS + "a_failure_that_is_not_final_requeues_the_task[sqlite]",
    ),
    guard(
        "requeue: node",
        QUEUE,
        "token_hash = $2, node_id = 0, lease_until = 0",
        "token_hash = $2, lease_until = 0",
        ENDS + "a_failure_that_is_not_final_requeues_the_task[sqlite]",
    ),
    guard(
        "requeue: lease",
        QUEUE,
        "node_id = 0, lease_until = 0, progress = 0",
        "node_id = 0, progress = 0",
        ENDS + "a_failure_that_is_not_final_requeues_the_task[sqlite]",
    ),
    guard(
        "tries: failures",
        TASKS,
        "last = await queue.tries(db, proof.kind, proof.id) >= TRIES_MAX",
        "last = False",
        ENDS + "the_third_failure_is_final[sqlite]",
    ),
    guard(
        "tries: expired leases",
        QUEUE,
        'f" AND tries < $1 ORDER BY',
        'f" AND $1 > 0 ORDER BY',
        CLOCK + "a_task_whose_tries_are_exhausted_is_refunded[sqlite]",
    ),
    guard(
        "tries: a lease that has not expired",
        QUEUE,
        "SELECT call_id FROM tasks WHERE {LEASED} AND lease_until <= now_ms()",
        "SELECT call_id FROM tasks WHERE {LEASED}",
        CLOCK + "a_task_in_its_last_try_can_be_completed[sqlite]",
    ),
    guard(
        "tries: tasks of the service itself",
        QUEUE,
        'WHERE {LEASED} AND lease_until <= now_ms()"\n            f',
        'WHERE {PROCESSING} AND lease_until <= now_ms()"\n            f',
        ENDS + "a_task_of_the_service_itself_is_stale_for_nodes[sqlite-beat]",
    ),
    guard(
        "tries: voices",
        QUEUE,
        "WHERE {PROCESSING} AND lease_until <= now_ms() AND tries >= $1 RETURNING id",
        "WHERE {PROCESSING} AND lease_until <= now_ms() AND tries > $1 RETURNING id",
        CLOCK + "a_voice_has_three_tries[sqlite]",
    ),
    guard(
        "a returned job costs no try",
        TASKS,
        "tries_returned=int(failure.returned)",
        "tries_returned=0",
        ENDS + "a_returned_job_does_not_use_a_try[sqlite]",
    ),
    guard(
        "a job returned in its last try is requeued",
        TASKS,
        "if failure.returned or not (last or",
        "if not (last or",
        ENDS + "a_job_returned_in_its_last_try_keeps_that_try[sqlite]",
    ),
    guard(
        "the leases of a disabled node",
        NODES,
        'if state == "disable":',
        "if False:",
        LEASE + "jobs_of_a_disabled_node_are_requeued_without_using_a_try[sqlite]",
    ),
)

DRAFTS = (
    guard(
        "a completion stores no large response",
        TASKS,
        "to_store(draft.replace(AUDIO_PLACEHOLDER, audio.name)) if draft",
        "draft.replace(AUDIO_PLACEHOLDER, audio.name) if draft",
        ENDS + "completing_a_task_stores_no_response_over_the_limit[sqlite]",
    ),
    guard(
        "the audio's name in the stored response",
        TASKS,
        "to_store(draft.replace(AUDIO_PLACEHOLDER, audio.name)) if draft",
        "to_store(draft) if draft",
        ENDS + "completing_a_task_stores_its_response[sqlite]",
    ),
    guard(
        "a completion stores the response",
        TASKS,
        "answer=answer, audio=audio",
        "answer=None, audio=audio",
        ENDS + "completing_a_task_stores_its_response[sqlite]",
    ),
    guard(
        "left to nodes: the task's id in the stored response",
        ROWS,
        "whole = draft.replace(TASK_PLACEHOLDER, str(task_id))",
        "whole = draft",
        CLOCK + "a_task_taken_over_by_nodes_stores_its_response[sqlite-id]",
    ),
    guard(
        "left to nodes: no response without audio",
        ROWS,
        "answer = None if AUDIO_PLACEHOLDER in whole else whole",
        "answer = whole",
        CLOCK + "a_task_taken_over_by_nodes_stores_its_response[sqlite-id and audio]",
    ),
    guard(
        "left to nodes: an ended call",
        ROWS,
        "WHERE call_id = $1 AND {LOCAL}",
        "WHERE call_id = $1 AND lease_until = 0",
        CLOCK + "an_ended_call_is_not_taken_over_by_nodes[sqlite]",
        "ConstraintError",
    ),
    guard(
        "left to nodes: a leased task",
        ROWS,
        "WHERE call_id = $1 AND {LOCAL}",
        "WHERE call_id = $1 AND status = 1",
        CLOCK + "a_leased_task_is_not_taken_over_again[sqlite]",
    ),
    guard(
        "left to nodes: the call's deadline",
        ROWS,
        "UPDATE calls SET deadline = $2 WHERE id = $1",
        "UPDATE calls SET deadline = deadline WHERE id = $1 AND $2 > 0",
        CLOCK + "a_task_taken_over_by_nodes_has_a_new_deadline[sqlite]",
    ),
    guard(
        "recovery does not refund tasks of nodes",
        GRANTS,
        "AND t.deadline > 0",
        "AND t.deadline < 0",
        CLOCK + "a_restart_refunds_no_task_of_a_node[sqlite]",
    ),
    Guard(
        "the end of an ended call is stale",
        (
            Change(
                TASKS,
                "if not await queue.lock_lease(db, proof):\n                if await",
                "if False:\n                if await",
            ),
            Change(TASKS, "if outcome is not EndOutcome.DONE:", "if False:"),
        ),
        ENDS + "a_failed_task_is_stale[sqlite-complete]",
    ),
)

OF_TASKS = (*PROOF, *LEASING, *REQUEUEING, *DRAFTS)
