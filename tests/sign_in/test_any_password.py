"""Any text is accepted as a password or refused with a reason."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from myna.errors import CommandError
from myna.sign_in import passwords

WORDS = st.lists(
    st.sampled_from(
        ["password", "2020-01-01", "qwerty", "aaaa", "ann", "@$!|0", "é", "\0", "🦜", " ", "1" * 9]
    ),
    max_size=20,
).map("".join)
TEXTS = st.text(max_size=140) | WORDS


@settings(max_examples=150)
@given(plain=TEXTS, name=st.text(min_size=1, max_size=100), email=st.text(max_size=50))
def test_any_text_is_accepted_or_refused_with_a_sentence(plain: str, name: str, email: str) -> None:
    try:
        asyncio.run(passwords.check(plain, name=name, email=email))
    except CommandError as refused:
        assert str(refused).endswith(".")
        assert not plain.strip() or plain not in str(refused) or len(plain) < passwords.CHARS_MIN
    else:
        assert passwords.CHARS_MIN <= len(plain) <= passwords.CHARS_MAX
