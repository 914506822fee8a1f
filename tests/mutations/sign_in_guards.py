"""The guards of signing in: links, sessions, passwords, the second factor, and the wait after failures."""

from tests.mutations.guards import Change, Guard, guard

LINKS = "myna/sign_in/links.py"
LINK_ROWS = "myna/store/queries/links.py"
SESSIONS = "myna/sign_in/sessions.py"
SESSION_ROWS = "myna/store/queries/sessions.py"
PASSWORDS = "myna/sign_in/passwords.py"
FACTORS = "myna/sign_in/second_factor.py"
FACTOR_ROWS = "myna/store/queries/second_factors.py"
THROTTLE = "myna/sign_in/throttle.py"
FAILURES = "myna/store/queries/sign_in_failures.py"

OF_LINKS = "tests/sign_in/test_links.py::test_"
OF_SESSIONS = "tests/sign_in/test_sessions.py::test_"
OF_PASSWORDS = "tests/sign_in/test_passwords.py::test_"
OF_FACTORS = "tests/sign_in/test_second_factor.py::test_"
OF_THROTTLE = "tests/sign_in/test_throttle.py::test_"
FAILED = "Failed"

_TAKE = Change(
    LINK_ROWS,
    'f"DELETE FROM links WHERE token_hash = $1 AND expires_at > now_ms() RETURNING {_COLUMNS}"',
    'f"SELECT {_COLUMNS} FROM links WHERE token_hash = $1 AND expires_at > now_ms()"',
)
_LINKS_END = Change(PASSWORDS, "    await links.delete_all(connection, account_id)\n", "")
_NO_FIRST = Change(
    LINKS,
    "an_operator_can_sign_in(connection):\n        raise CommandError(NOT_VALID)",
    "an_operator_can_sign_in(connection):\n        pass",
)
_TWENTY = OF_LINKS + "of_twenty_uses_at_once_one_sets_its_password"

OF_SIGN_IN = (
    *(
        Guard(f"a link is used once, {purpose}, {database}", changes, f"{_TWENTY}[{database}-{purpose}]")
        for database in ("sqlite", "postgresql")
        for purpose, changes in (
            ("first", (_TAKE, _NO_FIRST)),
            ("invite", (_TAKE, _LINKS_END)),
            ("reset", (_TAKE, _LINKS_END)),
        )
    ),
    guard(
        "the secret of a second factor is shown again only to who has it",
        FACTORS,
        " or not hmac.compare_digest(row.secret.encode(), secret.encode()):",
        ":",
        OF_FACTORS + "the_secret_is_shown_again_only_to_who_has_it[sqlite]",
    ),
    guard(
        "a link expires",
        LINK_ROWS,
        'FROM links WHERE token_hash = $1 AND expires_at > now_ms()", token_hash',
        'FROM links WHERE token_hash = $1", token_hash',
        OF_LINKS + "a_link_expires[sqlite]",
    ),
    guard(
        "a link is used before it expires",
        LINK_ROWS,
        "DELETE FROM links WHERE token_hash = $1 AND expires_at > now_ms()",
        "DELETE FROM links WHERE token_hash = $1",
        OF_LINKS + "a_link_that_expires_while_the_password_is_hashed_is_refused[sqlite]",
        FAILED,
    ),
    guard(
        "a new password replaces links",
        PASSWORDS,
        "    await links.delete_all(connection, account_id)\n",
        "",
        OF_LINKS + "a_newer_link_and_a_new_password_replace_a_link[sqlite]",
        FAILED,
    ),
    Guard(
        "a first link ends with the first operator",
        (
            _NO_FIRST,
            Change(LINKS, "return None if taken else Link", "return Link"),
        ),
        OF_LINKS + "a_first_link_ends_when_an_operator_gets_a_password[sqlite]",
    ),
    guard(
        "only who has no password is invited",
        LINKS,
        "if purpose is Purpose.INVITE and found.hash:",
        "if False:",
        OF_LINKS + "who_has_a_password_is_not_invited_and_who_has_none_has_nothing_to_reset[sqlite]",
        FAILED,
    ),
    guard(
        "an unused session ends",
        SESSION_ROWS,
        "s.seen_at > now_ms() - CAST($1 AS BIGINT)",
        "s.seen_at > 0 * CAST($1 AS BIGINT)",
        OF_SESSIONS + "a_session_ends_when_it_is_not_used[sqlite]",
    ),
    guard(
        "a used session ends",
        SESSION_ROWS,
        "ELSE CAST($2 AS BIGINT) END",
        "ELSE 1000 * CAST($2 AS BIGINT) END",
        OF_SESSIONS + "a_session_ends_however_often_it_is_used[sqlite]",
    ),
    guard(
        "a pending session ends",
        SESSION_ROWS,
        "WHEN s.pending = 1 THEN CAST($3 AS BIGINT)",
        "WHEN s.pending = 1 THEN 1000 * CAST($3 AS BIGINT)",
        OF_FACTORS + "a_sign_in_that_waits_too_long_ends[sqlite]",
        FAILED,
    ),
    guard(
        "a session of a disabled account is not found",
        SESSION_ROWS,
        " AND a.disabled_at = 0",
        "",
        OF_SESSIONS + "a_session_of_an_account_that_is_disabled_in_the_database_ends[sqlite]",
    ),
    guard(
        "no session is opened for a disabled account",
        SESSIONS,
        "if found is None or found.account.disabled_at:",
        "if found is None:",
        OF_SESSIONS + "a_session_of_an_account_that_is_disabled_in_the_database_ends[sqlite]",
        FAILED,
    ),
    guard(
        "disabling an account ends its sessions",
        "myna/store/queries/accounts.py",
        '    await db.fetch("DELETE FROM sessions WHERE account_id = $1", account_id)\n',
        "",
        OF_SESSIONS + "the_sessions_of_a_disabled_account_end_for_good[sqlite]",
    ),
    guard(
        "a disabled account does not sign in",
        PASSWORDS,
        "if found is None or not matches or found.account.disabled_at:",
        "if found is None or not matches:",
        OF_PASSWORDS + "every_reason_has_the_same_words_and_the_same_work[sqlite]",
        FAILED,
    ),
    guard(
        "an account without a password does not sign in",
        PASSWORDS,
        "return matches and bool(password_hash)",
        "return matches or not password_hash",
        OF_PASSWORDS + "every_reason_has_the_same_words_and_the_same_work[sqlite]",
        "InvalidHashError",
    ),
    guard(
        "an unknown name takes as long",
        PASSWORDS,
        "password_hash or DUMMY_HASH",
        "password_hash",
        OF_PASSWORDS + "every_reason_has_the_same_words_and_the_same_work[sqlite]",
        "InvalidHashError",
    ),
    guard(
        "an e-mail address of two accounts is none",
        "myna/store/queries/passwords.py",
        "if found and (len(found) == 1 or found[0].account.name == name_or_email):",
        "if found:",
        OF_PASSWORDS
        + "a_person_signs_in_with_the_name_or_with_an_email_address_that_one_account_has[sqlite]",
        FAILED,
    ),
    guard(
        "a new password ends the sessions",
        PASSWORDS,
        "    await sessions.delete_all(connection, account_id)\n",
        "",
        OF_SESSIONS + "a_new_password_ends_all_sessions[sqlite]",
    ),
    guard(
        "an old password opens no session",
        SESSIONS,
        "if current is None or current.hash != found.hash:",
        "if False:",
        OF_SESSIONS + "a_sign_in_with_the_old_password_during_its_change_is_refused[sqlite]",
        FAILED,
    ),
    guard(
        "a session is closed by its account",
        SESSION_ROWS,
        '"DELETE FROM sessions WHERE account_id = $1 AND id = $2 RETURNING id"',
        '"DELETE FROM sessions WHERE $1 > 0 AND id = $2 RETURNING id"',
        OF_SESSIONS + "a_session_can_be_closed_and_so_can_others_of_the_account[sqlite]",
        FAILED,
    ),
    guard(
        "a pending session is not signed in",
        SESSION_ROWS,
        "AND s.pending = $5 AND",
        "AND $5 >= 0 AND",
        OF_FACTORS + "a_sign_in_waits_for_a_code_and_gets_a_new_token[sqlite]",
    ),
    guard(
        "a code is used once",
        FACTOR_ROWS,
        "AND confirmed_at > 0 AND last_step < $2 RETURNING",
        "AND confirmed_at > 0 AND $2 > 0 RETURNING",
        OF_FACTORS + "a_code_is_used_once_and_so_are_those_before_it[sqlite]",
        FAILED,
    ),
    guard(
        "a code before a used one is used",
        FACTOR_ROWS,
        "AND last_step < $2 RETURNING",
        "AND last_step <> $2 RETURNING",
        OF_FACTORS + "a_code_is_used_once_and_so_are_those_before_it[sqlite]",
        FAILED,
    ),
    guard(
        "the code of the confirmation is used",
        FACTOR_ROWS,
        "confirmed_at = now_ms(), last_step = $3",
        "confirmed_at = now_ms(), last_step = 0 * $3",
        OF_FACTORS + "a_second_factor_is_off_until_a_code_confirms_it[sqlite]",
        FAILED,
    ),
    guard(
        "a clock differs by one step",
        FACTORS,
        "SKEW_STEPS: Final = 1",
        "SKEW_STEPS: Final = 2",
        OF_FACTORS + "a_clock_may_differ_by_one_step[sqlite--2-False]",
        FAILED,
    ),
    guard(
        "a recovery code is used once",
        FACTOR_ROWS,
        '"DELETE FROM recovery_codes WHERE code_hash = $1 AND account_id = $2 RETURNING account_id"',
        '"SELECT account_id FROM recovery_codes WHERE code_hash = $1 AND account_id = $2"',
        OF_FACTORS + "a_recovery_code_is_used_once_as_it_is_typed[sqlite]",
        FAILED,
    ),
    guard(
        "a recovery code is of its account",
        FACTOR_ROWS,
        "WHERE code_hash = $1 AND account_id = $2 RETURNING",
        "WHERE code_hash = $1 AND $2 > 0 RETURNING",
        OF_FACTORS + "a_recovery_code_of_another_account_is_refused[sqlite]",
        FAILED,
    ),
    guard(
        "an ended session confirms nothing",
        FACTORS,
        "if not await session_store.mark_second_factor(connection, session.token_hash):",
        "if False:",
        OF_FACTORS + "a_session_that_has_ended_turns_no_second_factor_on[sqlite]",
        FAILED,
    ),
    guard(
        "codes are throttled",
        FACTORS,
        "    await throttle.begin(db, subjects)\n",
        "",
        OF_FACTORS + "codes_are_throttled_for_the_account[sqlite]",
        FAILED,
    ),
    guard(
        "a failure is followed by a wait",
        THROTTLE,
        "if wait := wait_ms_after(failures):",
        "if wait := 0:",
        OF_THROTTLE
        + "from_the_fifth_failure_on_the_next_attempt_waits_twice_as_long_up_to_five_minutes[sqlite]",
    ),
    guard(
        "a wait ends",
        THROTTLE,
        "min(WAIT_MAX_MS, FIRST_WAIT_MS",
        "max(WAIT_MAX_MS, FIRST_WAIT_MS",
        OF_THROTTLE + "a_wait_is_at_most_five_minutes[100]",
    ),
    *(
        Guard(
            f"attempts at once are counted, {database}",
            (
                Change(
                    FAILURES,
                    " failed_at = now_ms() WHERE f.blocked_until <= now_ms()",
                    " failed_at = now_ms()",
                ),
            ),
            f"{OF_THROTTLE}attempts_that_begin_at_once_see_the_block_of_another[{database}]",
        )
        for database in ("sqlite", "postgresql")
    ),
    guard(
        "attempts from an address are counted",
        THROTTLE,
        "for subject in (self.person, self.address) if subject",
        "for subject in (self.person,) if subject",
        OF_THROTTLE + "an_address_that_tries_many_names_waits_and_others_do_not[sqlite]",
    ),
    guard(
        "a person with a session is not locked out",
        THROTTLE,
        "if await sessions.known_address(db, account_id, address):",
        "if False:",
        OF_THROTTLE + "a_person_is_not_locked_out_where_a_session_exists[sqlite]",
    ),
    guard(
        "a sign-in does not clear its address",
        THROTTLE,
        "await store.uncount(connection, subjects.address)",
        "await store.clear(connection, subjects.address)",
        OF_THROTTLE + "signing_in_to_one_account_does_not_allow_more_tries_of_others[sqlite]",
    ),
    guard(
        "a confirmation is not stopped by others' failures",
        PASSWORDS,
        'subjects = throttle.of_account("confirm", account.id)',
        'subjects = await throttle.of_sign_in(db, account.id, "", address)',
        OF_PASSWORDS + "a_confirmation_is_refused_and_throttled_apart_from_signing_in[sqlite]",
        "TooManyAttempts",
    ),
    guard(
        "a backup keeps no session",
        "myna/backup/backup.py",
        "if move or table.name not in tables.NOT_KEPT",
        "if True",
        "tests/store/test_restore.py::test_a_restore_revives_no_session_and_no_link[sqlite]",
    ),
)
