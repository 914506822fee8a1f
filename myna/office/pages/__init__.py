"""One module for each page or group of pages; those in `site` are for operators."""

import importlib
import pkgutil

from myna.office.page import Page

ALL_PAGES: list[Page] = [
    page
    for found in pkgutil.walk_packages(__path__, f"{__name__}.")
    for page in getattr(importlib.import_module(found.name), "PAGES", ())
]
"""Of every module, in the order of their names: of two paths that fit, the first one's page is shown."""
