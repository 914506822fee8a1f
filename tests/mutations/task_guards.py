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
        ENDS + "a_beat_renews_what_is_held_and_names_the_rest[sqlite]",
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
        ENDS + "a_lease_that_ran_out_is_stale_before_anybody_looked[sqlite-complete]",
    ),
    guard(
        "proof of a completed job: token",
        QUEUE,
        "{COMPLETED} AND epoch = $2 AND token_hash = $3",
        "{COMPLETED} AND epoch = $2 AND (token_hash = $3 OR true)",
        ENDS + "who_never_held_a_completed_task_is_stale[sqlite-token]",
    ),
    guard(
        "proof of a completed job: epoch",
        QUEUE,
        "{COMPLETED} AND epoch = $2",
        "{COMPLETED} AND (epoch = $2 OR true)",
        ENDS + "who_never_held_a_completed_task_is_stale[sqlite-epoch]",
    ),
    guard(
        "proof of a completed job: node",
        QUEUE,
        'token_hash = $3 AND node_id = $4"',
        'token_hash = $3 AND (node_id = $4 OR true)"',
        ENDS + "who_never_held_a_completed_task_is_stale[sqlite-node]",
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
        LEASE + "whoever_looked_before_the_job_was_taken_does_not_take_it_again[sqlite]",
    ),
    guard(
        "lease: epoch",
        QUEUE,
        "epoch = epoch + 1,",
        "epoch = 1,",
        CLOCK + "a_task_whose_lease_ran_out_goes_back_to_the_queue[sqlite]",
    ),
    guard(
        "lease: token",
        TASKS,
        "token = secrets.token_hex(16)",
        'token = "0" * 32',
        ENDS + "a_failure_that_another_node_may_mend_queues_the_task_again[sqlite]",
    ),
    guard(
        "lease: skips locked rows",
        QUEUE,
        "WHERE id = $1 AND {QUEUED}{in_time}{db.skip_locked})",
        "WHERE id = $1 AND {QUEUED}{in_time})",
        LEASE + "a_job_in_somebodys_hands_is_left_out_without_waiting",
        "LockTimedOut",
    ),
    guard(
        "lease: deadline",
        QUEUE,
        "AND {QUEUED}{in_time}{db.skip_locked})",
        "AND {QUEUED}{db.skip_locked})",
        LEASE + "a_job_whose_deadline_passed_since_it_was_chosen_is_not_leased[sqlite]",
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
        LEASE + "a_disabled_node_gets_nothing[sqlite]",
    ),
    guard(
        "a draining node gets no lease",
        QUEUE,
        " AND n.draining = 0",
        "",
        LEASE + "a_draining_node_ends_what_it_has_and_gets_nothing[sqlite]",
    ),
    guard(
        "a removed node gets no lease",
        QUEUE,
        "WHERE EXISTS (SELECT 1 FROM nodes n WHERE n.id = $1",
        "WHERE $1 = $1 OR EXISTS (SELECT 1 FROM nodes n WHERE n.id = $1",
        LEASE + "a_disabled_node_gets_nothing[sqlite]",
    ),
    guard(
        "lease: the node's voices",
        QUEUE,
        "v.node_id = $1 AND v.voice_id = q.voice_id",
        "v.node_id = $1",
        LEASE + "a_node_gets_only_voices_that_it_speaks[sqlite]",
    ),
    guard(
        "lease: the node's languages",
        QUEUE,
        "ON l.node_id = $1 AND l.language = c.language",
        "ON l.node_id = $1",
        LEASE + "a_new_voice_is_made_by_a_node_that_clones_its_language[sqlite]",
    ),
    guard(
        "lease: a cloned voice that is ready",
        QUEUE,
        "c.{READY} AND l.node_id = $1",
        "l.node_id = $1",
        LEASE + "a_voice_that_failed_is_spoken_by_nobody[sqlite]",
    ),
    guard(
        "round robin of accounts",
        QUEUE,
        "ORDER BY coalesce(u.turn, 0), j.position",
        "ORDER BY j.position",
        FAIRNESS + "accounts_take_turns_whatever_each_has_waiting[sqlite]",
    ),
    guard(
        "a sample: the lease of the new voice",
        QUEUE,
        "c.{PROCESSING} AND c.node_id = $1",
        "c.status = 0",
        LEASE + "a_sample_is_only_for_the_node_that_holds_a_job_of_it[sqlite]",
    ),
    guard(
        "a sample: the task's lease",
        QUEUE,
        " AND t.lease_until > now_ms()))",
        "))",
        LEASE + "a_sample_is_only_for_the_node_that_holds_a_job_of_it[sqlite]",
    ),
)

REQUEUEING = (
    guard(
        "requeue: token",
        QUEUE,
        "{QUEUED}, token_hash = $2, node_id = 0",
        "{QUEUED}, token_hash = coalesce(token_hash, $2), node_id = 0",
        ENDS + "a_failure_that_another_node_may_mend_queues_the_task_again[sqlite]",
    ),
    guard(
        "requeue: node",
        QUEUE,
        "token_hash = $2, node_id = 0, lease_until = 0",
        "token_hash = $2, lease_until = 0",
        ENDS + "a_failure_that_another_node_may_mend_queues_the_task_again[sqlite]",
    ),
    guard(
        "requeue: lease",
        QUEUE,
        "node_id = 0, lease_until = 0, progress = 0",
        "node_id = 0, progress = 0",
        ENDS + "a_failure_that_another_node_may_mend_queues_the_task_again[sqlite]",
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
        CLOCK + "a_task_that_no_node_finished_in_all_its_tries_is_refunded[sqlite]",
    ),
    guard(
        "tries: a lease that has not expired",
        QUEUE,
        "SELECT call_id FROM tasks WHERE {LEASED} AND lease_until <= now_ms()",
        "SELECT call_id FROM tasks WHERE {LEASED}",
        CLOCK + "a_task_in_its_last_try_is_left_to_its_node[sqlite]",
    ),
    guard(
        "tries: tasks of the service itself",
        QUEUE,
        'WHERE {LEASED} AND lease_until <= now_ms()"\n            f',
        'WHERE {PROCESSING} AND lease_until <= now_ms()"\n            f',
        ENDS + "a_task_that_the_site_itself_is_at_is_no_nodes[sqlite-beat]",
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
        "tries_returned=int(failure.handed_back)",
        "tries_returned=0",
        ENDS + "a_job_handed_back_costs_no_try[sqlite]",
    ),
    guard(
        "a job returned in its last try is requeued",
        TASKS,
        "if failure.handed_back or not (last or",
        "if not (last or",
        ENDS + "a_task_handed_back_in_its_last_try_still_has_it[sqlite]",
    ),
    guard(
        "the leases of a disabled node",
        NODES,
        'if state == "disable":',
        "if False:",
        LEASE + "what_a_disabled_node_holds_is_queued_again_and_costs_no_try[sqlite]",
    ),
)

DRAFTS = (
    guard(
        "a completion stores no large response",
        TASKS,
        "to_store(draft.replace(AUDIO_PLACEHOLDER, audio.name)) if draft",
        "draft.replace(AUDIO_PLACEHOLDER, audio.name) if draft",
        ENDS + "who_completes_a_task_stores_no_answer_that_is_too_large_and_drops_its_draft[sqlite]",
    ),
    guard(
        "the audio's name in the stored response",
        TASKS,
        "to_store(draft.replace(AUDIO_PLACEHOLDER, audio.name)) if draft",
        "to_store(draft) if draft",
        ENDS + "who_completes_a_task_fills_in_the_answer_to_its_copies[sqlite]",
    ),
    guard(
        "a completion stores the response",
        TASKS,
        "answer=answer, audio=audio",
        "answer=None, audio=audio",
        ENDS + "who_completes_a_task_fills_in_the_answer_to_its_copies[sqlite]",
    ),
    guard(
        "left to nodes: the task's id in the stored response",
        ROWS,
        "whole = draft.replace(TASK_PLACEHOLDER, str(task_id))",
        "whole = draft",
        CLOCK + "what_is_left_to_nodes_has_the_answer_to_its_copies[sqlite-id]",
    ),
    guard(
        "left to nodes: no response without audio",
        ROWS,
        "answer = None if AUDIO_PLACEHOLDER in whole else whole",
        "answer = whole",
        CLOCK + "what_is_left_to_nodes_has_the_answer_to_its_copies[sqlite-id and audio]",
    ),
    guard(
        "left to nodes: an ended call",
        ROWS,
        "WHERE call_id = $1 AND {LOCAL}",
        "WHERE call_id = $1 AND lease_until = 0",
        CLOCK + "a_call_that_ended_meanwhile_is_not_left_to_nodes[sqlite]",
        "ConstraintError",
    ),
    guard(
        "left to nodes: a leased task",
        ROWS,
        "WHERE call_id = $1 AND {LOCAL}",
        "WHERE call_id = $1 AND status = 1",
        CLOCK + "what_a_node_holds_already_is_not_taken_from_it[sqlite]",
    ),
    guard(
        "left to nodes: the call's deadline",
        ROWS,
        "UPDATE calls SET deadline = $2 WHERE id = $1",
        "UPDATE calls SET deadline = deadline WHERE id = $1 AND $2 > 0",
        CLOCK + "what_is_left_to_nodes_has_its_new_deadline[sqlite]",
    ),
    guard(
        "recovery does not refund tasks of nodes",
        GRANTS,
        "AND t.deadline > 0",
        "AND t.deadline < 0",
        CLOCK + "a_server_that_starts_leaves_the_tasks_of_nodes_alone[sqlite]",
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
        ENDS + "a_task_that_failed_is_stale[sqlite-complete]",
    ),
)

OF_TASKS = (*PROOF, *LEASING, *REQUEUEING, *DRAFTS)
