"""One module for each page or group of pages."""

from myna.office.page import Page
from myna.office.pages import (
    calls,
    home,
    keys,
    ledger,
    me,
    new_key,
    new_voice,
    oidc,
    records,
    sign_in,
    start,
    try_chat,
    try_speech,
    try_stream,
    usage,
    voices,
    words,
)
from myna.office.pages.site import SITE_PAGES

ALL_PAGES: list[Page] = [
    *calls.PAGES,
    *home.PAGES,
    *keys.PAGES,
    *ledger.PAGES,
    *me.PAGES,
    *new_key.PAGES,
    *new_voice.PAGES,
    *oidc.PAGES,
    *records.PAGES,
    *sign_in.PAGES,
    *start.PAGES,
    *try_chat.PAGES,
    *try_speech.PAGES,
    *try_stream.PAGES,
    *usage.PAGES,
    *voices.PAGES,
    *words.PAGES,
    *SITE_PAGES,
]
