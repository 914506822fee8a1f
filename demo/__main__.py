"""`python -m demo`.

Exit codes: 0: all steps succeeded, or Ctrl-C after them; 1: a step failed; 2: a setting is wrong.
"""

import asyncio
import os
import sys

from demo.output import Output
from demo.program import keep_running, run_demo, stops_after_tour
from demo.service import ACCOUNT, Service, User, choose_settings
from demo.tour import SOUNDS, Tour
from demo.voice import choose_voice
from myna.accounts.sign_in import links
from myna.cli.console import open_database
from myna.settings import Settings


def demo(output: Output) -> None:
    """The whole demo."""
    settings, env, wanted = choose_settings(os.environ)
    output.title("Myna: a self-hosted AI gateway with API keys, prepaid units, chat and speech.")
    output.say(
        f"Nothing leaves this machine unless you configure a model elsewhere. Data folder: {settings.data}."
    )
    env |= choose_voice(settings, env, output)
    with Service(settings, env) as service:
        output.step("The service", "myna serve")
        if wanted != settings.port:
            output.say(f"Port {wanted} is in use; this run uses {settings.port}.", "yellow")
        ready = f"{service.root_url} (ready in {service.wait_ready():.1f} s)"
        output.rows(("address", ready), ("log", str(service.log)))
        user = User(service, output)
        Tour(user, settings, output).run()
        if stops_after_tour():
            output.title(
                "\nEvery step worked. `make demo` also keeps serving, with the key and the back office."
            )
            return
        _invite(user, settings, output)
        keep_running(output, service)


def _invite(user: User, settings: Settings, output: Output) -> None:
    """Prints commands to try next."""
    body = '{"model":"svc-chat","messages":[{"role":"user","content":"Hi"}]}'
    output.title("\nYour turn. The service keeps running; paste this into another terminal:")
    output.paste(
        f"export OPENAI_BASE_URL={user.openai_url}",
        f"export OPENAI_API_KEY={user.key}",
        f"curl $OPENAI_BASE_URL/chat/completions -H \"Authorization: Bearer $OPENAI_API_KEY\" -d '{body}'",
    )
    if settings.chat_url == "parrot:":
        output.title("A real model instead of the parrot: any OpenAI-compatible URL, such as Ollama's.")
        output.paste("MYNA_CHAT_URL=http://127.0.0.1:11434/v1 MYNA_CHAT_MODEL=llama3.2 make demo")
    output.rows(
        ("listen", f"the sounds are in {settings.data}/{SOUNDS}"),
        ("more units", f"MYNA_DATA={settings.data} .venv/bin/myna account grant {ACCOUNT} 100"),
        ("data folder", f"{settings.data}: delete it to start over"),
        ("more to see", "make demo-month: a site after a month of use; make demo-node: a compute node"),
        ("install it", "docs/install.md; all pages by question: docs/README.md"),
        ("stop", "Ctrl-C"),
    )
    _show_office(user, settings, output)


def _show_office(user: User, settings: Settings, output: Output) -> None:
    """Says how to open the back office. A link is printed to a terminal only: other output is stored, and a
    link is secret."""
    office = f"{user.openai_url.removesuffix('/openai/v1')}/office"
    link = asyncio.run(_first_link(settings)) if sys.stdout.isatty() else ""
    if link:
        output.title("\nIn a browser: the back office. This link works once, for 15 minutes.")
        output.paste(link)
        return
    output.title(f"\nIn a browser: the back office, {office}. A link for an operator's password:")
    where = f"MYNA_DATA={settings.data} MYNA_PORT={settings.port}"
    output.paste(f"{where} .venv/bin/myna account add NAME --operator")


async def _first_link(settings: Settings) -> str:
    """The one-time link with which the first operator opens the back office; "" if one can sign in."""
    async with open_database(settings) as db:
        if not await links.first_is_needed(db):
            return ""
        return links.url(settings.base_url, await links.create_first(db))


if __name__ == "__main__":
    sys.exit(run_demo(demo))
