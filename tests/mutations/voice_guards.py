"""The guards of the owner of a voice, and of nodes that failed or were disabled."""

from tests.mutations.guards import guard

QUEUE = "myna/store/queries/farm/queue.py"
TASKS = "myna/farm/tasks.py"
VOICES = "myna/voices.py"

OWN_VOICES = "tests/tasks/test_own_voices.py::test_"
COOLDOWN = "tests/tasks/test_cooldown.py::test_"
LOCKED_JOBS = "tests/store/test_locked_jobs.py::test_"

OF_VOICES = (
    guard(
        "a clone is never a public voice",
        VOICES,
        "if is_clone(voice_id):  # never",
        "if is_clone(voice_id) and clones:  # never",
        OWN_VOICES + "a_node_that_offers_a_cloned_voice_does_not_publish_it[sqlite]",
        error="Failed",
    ),
    guard(
        "a reference is sent only with jobs of its account",
        QUEUE,
        '" WHERE voice_id = $1 AND account_id = $2",',
        '" WHERE voice_id = $1 AND $2 > 0",',
        OWN_VOICES + "a_node_that_offers_a_cloned_voice_does_not_publish_it[sqlite]",
    ),
    guard(
        "a sample is sent only for jobs of its account",
        QUEUE,
        " AND t.account_id = c.account_id",
        "",
        OWN_VOICES + "a_node_that_offers_a_cloned_voice_does_not_publish_it[sqlite]",
    ),
    guard(
        "a node that failed has a cooldown",
        QUEUE,
        "AND n.rests_until <= (SELECT now_ms()))",
        ")",
        COOLDOWN + "after_a_failure_another_node_gets_the_next_try[sqlite]",
    ),
    guard(
        "a disabled node gets no lease during a heartbeat",
        QUEUE,
        " AND EXISTS (SELECT 1 FROM nodes n WHERE n.id = $4 AND n.disabled_at = 0)",
        "",
        LOCKED_JOBS + "a_node_disabled_during_a_heartbeat_has_no_lease",
    ),
    guard(
        "a locked job hides no other",
        TASKS,
        "queue.next_jobs(db, node_id, ACCOUNTS_MAX)",
        "queue.next_jobs(db, node_id, jobs - len(found))",
        LOCKED_JOBS + "a_locked_job_is_skipped_for_the_next_one",
        error="ValueError",
    ),
    guard(
        "a deleted voice makes earlier decisions stale",
        "myna/store/queries/clones.py",
        "    await raise_version(db)  # a call that was decided",
        "    # a call that was decided",
        "tests/clones/test_delete.py::test_deleting_a_voice_makes_earlier_decisions_stale[sqlite]",
    ),
)
