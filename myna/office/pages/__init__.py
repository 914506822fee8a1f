"""One module for each page or group of pages."""

from myna.office.page import Page
from myna.office.pages import calls, home, keys, new_key, records, sign_in, start

ALL_PAGES: list[Page] = [
    *sign_in.PAGES,
    *home.PAGES,
    *new_key.PAGES,
    *keys.PAGES,
    *records.PAGES,
    *calls.PAGES,
    *start.PAGES,
]
