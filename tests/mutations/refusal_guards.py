"""The guards of jobs that a node refused: which node gets them next, and what a refuted refusal costs."""

from tests.mutations.guards import guard

QUEUE = "myna/store/queries/farm/queue.py"
POLLS = "myna/store/queries/farm/polls.py"
REFUSALS = "myna/store/queries/farm/refusals.py"
TASKS = "myna/farm/tasks.py"

OPINION = "tests/tasks/test_final_failures.py::test_"
NONE_LEFT = OPINION + "a_refused_voice_fails_after_the_grace_period_without_another_node"
NO_OTHER = OPINION + "a_refused_task_without_another_able_node_is_refunded_at_once"

OF_REFUSALS = (
    guard(
        "a refused job is requeued for another node",
        TASKS,
        "return not await refusals.another_node_can(db, proof.kind, proof.id)",
        "return True",
        OPINION + "a_refused_task_is_completed_by_another_node[sqlite]",
    ),
    guard(
        "a refused job that no other node can do",
        TASKS,
        "return not await refusals.another_node_can(db, proof.kind, proof.id)",
        "return False",
        OPINION + "a_task_refused_by_all_nodes_is_refunded[sqlite]",
    ),
    guard(
        "a refusal is stored",
        REFUSALS,
        "SET refused_by = refused_by || $2",
        "SET refused_by = substr(refused_by || $2, 1, 0)",
        OPINION + "a_task_refused_by_all_nodes_is_refunded[sqlite]",
    ),
    guard(
        "the tries of a refused job",
        TASKS,
        "not (last or await self._refused_by_all(db, proof, failure))",
        "not await self._refused_by_all(db, proof, failure)",
        OPINION + "refusals_use_tries[sqlite]",
    ),
    guard(
        "another node: online",
        REFUSALS,
        "AND n.heard_at > now_ms() - $2",
        "AND $2 > 0",
        NO_OTHER + "[sqlite-offline]",
    ),
    guard(
        "another node: enabled",
        REFUSALS,
        "n.disabled_at = 0 AND ",
        "",
        NO_OTHER + "[sqlite-disabled]",
    ),
    guard(
        "another node: not draining",
        REFUSALS,
        "AND n.draining = 0 ",
        "",
        NO_OTHER + "[sqlite-draining]",
    ),
    guard(
        "another node: speaks the voice",
        REFUSALS,
        "WHERE v.node_id = n.id AND v.voice_id = j.voice_id)",
        "WHERE v.node_id = n.id)",
        NO_OTHER + "[sqlite-another voice]",
    ),
    guard(
        "another node: clones the language of the account's voice",
        REFUSALS,
        "WHERE c.voice_id = j.voice_id AND c.{READY} AND l.node_id = n.id)",
        "WHERE false)",
        OPINION + "a_refused_task_in_a_cloned_voice_is_leased_to_another_node[sqlite]",
    ),
    guard(
        "another node: clones the language",
        REFUSALS,
        "WHERE l.node_id = n.id AND l.language = j.language)",
        "WHERE l.node_id = n.id)",
        OPINION + "a_refused_voice_fails_if_no_other_node_clones_its_language[sqlite-en]",
    ),
    guard(
        "a refused task is not offered again",
        QUEUE,
        """AND {not_refused("tasks", "$1")}""",
        "AND true",
        OPINION + "a_refused_task_is_completed_by_another_node[sqlite]",
    ),
    guard(
        "a refused voice is not offered again",
        QUEUE,
        """ AND {not_refused("c", "$1")} GROUP BY""",
        " GROUP BY",
        OPINION + "a_refused_voice_is_completed_by_another_node[sqlite]",
    ),
    guard(
        "a polling node: a refused task",
        POLLS,
        """WHERE {not_refused("r", "v.node_id")}""",
        "WHERE true",
        OPINION + "a_poll_is_not_woken_for_a_job_its_node_refused[sqlite]",
    ),
    guard(
        "a polling node: a refused task in a cloned voice",
        POLLS,
        """WHERE {not_refused("r", "l.node_id")}""",
        "WHERE true",
        OPINION + "a_refused_task_in_a_cloned_voice_is_leased_to_another_node[sqlite]",
    ),
    guard(
        "a polling node: a refused voice",
        POLLS,
        """AND {not_refused("c", "l.node_id")}""",
        "AND true",
        OPINION + "a_poll_is_not_woken_for_a_job_its_node_refused[sqlite]",
    ),
    guard(
        "a refuted refusal is counted",
        REFUSALS,
        "await queue.begin_cooldown(db, number, returned=False)",
        "pass",
        OPINION + "a_refused_job_completed_by_another_node_is_a_failure_of_the_first[sqlite]",
    ),
    guard(
        "a refused voice that no other node can clone",
        TASKS,
        "await refusals.fail_refused_clones(db, REFUSED_CLONE_WAIT_MS, TRIES_EXHAUSTED)",
        "pass",
        NONE_LEFT + "[sqlite-False]",
    ),
    guard(
        "a refused voice: the grace period",
        REFUSALS,
        "AND j.leased_at <= now_ms() - $1",
        "AND $1 > 0",
        NONE_LEFT + "[sqlite-False]",
    ),
    guard(
        "a refused voice: another node",
        REFUSALS,
        """f" AND NOT {_another(CLONE)} RETURNING id",""",
        """f" AND $2 > 0 RETURNING id",""",
        NONE_LEFT + "[sqlite-True]",
    ),
)
