"""The guards of sign-in by OpenID Connect: each check of an ID token, of the callback, and of the link."""

from tests.mutations.guards import Change, Guard, guard

TOKENS = "myna/sign_in/oidc/id_token.py"
FLOW = "myna/sign_in/oidc/flow.py"
PROVIDER = "myna/sign_in/oidc/provider.py"
IDENTITIES = "myna/sign_in/oidc/identities.py"
ROWS = "myna/store/queries/oidc.py"
SESSION_ROWS = "myna/store/queries/sessions.py"

OF_TOKENS = "tests/sign_in/test_oidc_tokens.py::test_"
OF_FLOW = "tests/sign_in/test_oidc_flow.py::test_"
OF_IDENTITIES = "tests/sign_in/test_oidc_identities.py::test_"
FAILED = "Failed"


def check(condition: str, wrong: str) -> Guard:
    """The check of an ID token with this condition; without it the wrong token is accepted."""
    test = f"{OF_TOKENS}a_token_that_fails_a_check_is_refused[{wrong}]"
    return guard(f"a token of or with {wrong} is refused", TOKENS, condition, "if False:", test, FAILED)


OF_OIDC = (
    check("if claims.iss != expected.issuer:", "another issuer"),
    check("if expected.client_id not in audience:", "another client"),
    check("if len(audience) > 1 and claims.azp is None:", "several clients and no party"),
    check("if claims.azp is not None and claims.azp != expected.client_id:", "another party"),
    check(
        'if not hmac.compare_digest(claims.nonce.encode(errors="surrogatepass"), expected.nonce.encode()):',
        "no nonce",
    ),
    check("if not is_subject(claims.sub):", "an empty subject"),
    check("if claims.exp <= now - SKEW_S:", "expired"),
    check("if not now - ISSUED_MAX_S - SKEW_S < claims.iat <= now + SKEW_S:", "issued long ago"),
    check("if claims.nbf is not None and claims.nbf > now + SKEW_S:", "not valid yet"),
    check("if isinstance(public, jwk.RSAKey) and public.raw_value.key_size < RSA_MIN_BITS:", "a short key"),
    guard(
        "a key for enciphering is not used",
        TOKENS,
        '        and key.get("use", "sig") == "sig"\n',
        "",
        OF_TOKENS + "a_token_that_fails_a_check_is_refused[a key for enciphering]",
        FAILED,
    ),
    guard(
        "a key of another algorithm is not used",
        TOKENS,
        '        and key.get("alg", header.alg) == header.alg\n',
        "",
        OF_TOKENS + "a_token_that_fails_a_check_is_refused[a key of another algorithm]",
        FAILED,
    ),
    guard(
        "the key is that of the header",
        TOKENS,
        '        and (header.kid is None or key.get("kid") == header.kid)\n',
        "",
        OF_TOKENS + "a_token_that_fails_a_check_is_refused[an unknown key of a known kind]",
        FAILED,
    ),
    guard(
        "an algorithm off the list is refused",
        TOKENS,
        'KEY_TYPES: Final = {"RS256": "RSA",',
        'KEY_TYPES: Final = {"RS256": "RSA", "RS384": "RSA",',
        OF_TOKENS + "a_token_that_fails_a_check_is_refused[an algorithm off the list]",
        FAILED,
    ),
    guard(
        "the signature is verified",
        TOKENS,
        "    payload = _signed_payload(token, header.alg, _key_for(header, keys))\n",
        '    payload = base64.urlsafe_b64decode(token.split(".")[1] + "==")\n',
        OF_TOKENS + "a_token_that_fails_a_check_is_refused[a damaged signature]",
        FAILED,
    ),
    guard(
        "an address that is not verified is none",
        TOKENS,
        "and self.email_verified is True else",
        "and self.email_verified else",
        OF_TOKENS + "only_a_verified_email_address_counts[changes3-]",
    ),
    guard(
        "a confirmation needs a recent authentication",
        TOKENS,
        "if claims.auth_time is None or not after - SKEW_S <= claims.auth_time <= now + SKEW_S:",
        "if False:",
        OF_TOKENS + "a_confirmation_needs_a_person_who_was_authenticated_again[0]",
        FAILED,
    ),
    guard(
        "another issuer in the callback is refused",
        FLOW,
        "if iss_is_missing or answer.iss not in (None, self.client.issuer):",
        "if iss_is_missing:",
        OF_FLOW + "an_answer_that_names_another_issuer_or_none_is_refused[https://other.example]",
        FAILED,
    ),
    guard(
        "an issuer that is announced must be named",
        FLOW,
        "iss_is_missing = answer.iss is None and metadata.",
        "iss_is_missing = False and metadata.",
        OF_FLOW + "an_answer_that_names_another_issuer_or_none_is_refused[iss0]",
        FAILED,
    ),
    guard(
        "the metadata is that of the issuer",
        PROVIDER,
        "if found.issuer != self._client.issuer:",
        "if False:",
        OF_FLOW + "metadata_that_is_wrong_is_not_used[issuer]",
        FAILED,
    ),
    guard(
        "only https addresses are asked",
        PROVIDER,
        "if not self._may_be_asked(endpoint):",
        "if False:",
        OF_FLOW + "metadata_that_is_wrong_is_not_used[token_endpoint0]",
        FAILED,
    ),
    guard(
        "an unknown key is looked for at most once a minute",
        PROVIDER,
        "age < (AGAIN_S if newer else KEPT_S)",
        "age < (0 if newer else KEPT_S)",
        OF_FLOW + "a_new_key_is_fetched_and_unknown_ones_do_not_flood_the_provider",
    ),
    *(
        guard(
            f"an answer is used once, {database}",
            ROWS,
            '"DELETE FROM oidc_attempts WHERE state_hash = $1 AND browser_hash = $2"\n'
            '        f" AND created_at > now_ms() - CAST($3 AS BIGINT) RETURNING {_ATTEMPT}"',
            'f"SELECT {_ATTEMPT} FROM oidc_attempts WHERE state_hash = $1 AND browser_hash = $2"\n'
            '        " AND created_at > now_ms() - CAST($3 AS BIGINT)"',
            f"{OF_FLOW}of_twenty_uses_of_an_answer_one_is_accepted[{database}]",
        )
        for database in ("sqlite", "postgresql")
    ),
    guard(
        "an answer is that of the browser",
        ROWS,
        "WHERE state_hash = $1 AND browser_hash = $2",
        "WHERE state_hash = $1 AND length($2) > 0",
        OF_FLOW + "an_answer_is_of_use_to_the_browser_that_began[sqlite]",
        FAILED,
    ),
    guard(
        "an attempt expires",
        ROWS,
        'f" AND created_at > now_ms() - CAST($3 AS BIGINT) RETURNING {_ATTEMPT}"',
        'f" AND created_at > 0 * CAST($3 AS BIGINT) RETURNING {_ATTEMPT}"',
        OF_FLOW + "an_attempt_expires_after_ten_minutes[sqlite]",
        FAILED,
    ),
    guard(
        "a subject is that of the issuer",
        ROWS,
        "WHERE issuer = $1 AND subject = $2",
        "WHERE length($1) > 0 AND subject = $2",
        OF_IDENTITIES + "the_identity_is_issuer_and_subject[sqlite]",
        FAILED,
    ),
    guard(
        "an address of two accounts links none",
        IDENTITIES,
        "if len(found) != 1 or found[0].disabled_at:",
        "if not found or found[0].disabled_at:",
        OF_IDENTITIES + "an_email_address_of_two_accounts_or_of_a_linked_one_links_nothing[sqlite]",
        FAILED,
    ),
    guard(
        "an unlinked account is not linked by its address",
        IDENTITIES,
        " or await store.was_unlinked(connection, account.id):",
        ":",
        OF_IDENTITIES + "an_email_address_does_not_link_again_what_was_unlinked[sqlite]",
        FAILED,
    ),
    guard(
        "another identity ends the sessions of the one before",
        IDENTITIES,
        "        if await store.unlink(connection, account.id):\n            await session_store",
        "        if await store.unlink(connection, account.id) and False:\n            await session_store",
        OF_IDENTITIES + "another_identity_ends_the_sessions_of_the_one_before[sqlite]",
    ),
    Guard(
        "a sign-in at the provider is no recent password",
        (Change(SESSION_ROWS, "now_ms() * CAST($6 AS BIGINT)", "now_ms() + 0 * CAST($6 AS BIGINT)"),),
        OF_IDENTITIES + "a_sign_in_at_the_provider_is_no_recent_password[sqlite]",
    ),
    guard(
        "a second factor is no recent password",
        SESSION_ROWS,
        "CASE WHEN verified_at = 0 THEN 0 ELSE now_ms() END",
        "now_ms()",
        OF_IDENTITIES + "a_second_factor_is_still_asked_for[sqlite]",
    ),
    guard(
        "a confirmation is of the linked identity",
        IDENTITIES,
        "if found is None or (found.issuer, found.subject) != (identity.issuer, identity.subject):",
        "if False:",
        OF_IDENTITIES + "a_sign_in_at_the_provider_is_no_recent_password[sqlite]",
        FAILED,
    ),
    guard(
        "the only way to sign in stays",
        IDENTITIES,
        "if not await passwords.has_one(connection, account.id):",
        "if False:",
        OF_IDENTITIES + "the_only_way_to_sign_in_is_not_removed_by_its_owner[sqlite]",
        FAILED,
    ),
)
