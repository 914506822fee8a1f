"""Sign-in by OpenID Connect: the authorization code flow with PKCE, for accounts that are linked.

browser ──begin──► attempt ──redirect──► provider ──callback with state and code──► attempt is used
    attempt ──code──► ID token ──checks──► (issuer, subject) ──linked account──► session, or pending session

`provider` asks the provider, `id_token` checks what it signs, `identities` links subjects to accounts, and
`flow` ties its answer to a browser and connects them. No account is created.
The specifications are OpenID Connect Core 1.0 and Discovery 1.0, RFC 6749, 7636, 9207 and 9700.
"""
