"""`python -m demo`. Exit 0: all went well, or Ctrl-C ended it; 1: something failed; 2: a setting is wrong."""

import os
import sys

from demo.paper import Paper
from demo.service import Service, settle
from demo.stage import ends_by_itself, go_on, perform
from demo.tour import Tour
from demo.user import ACCOUNT, User
from myna.settings import Settings


def play(paper: Paper) -> None:
    """The whole demo."""
    settings, env, wanted = settle(os.environ)
    paper.title("Myna: a self-hosted AI gateway with API keys, prepaid units, chat and speech.")
    paper.say(
        f"Nothing leaves this machine unless you configure a model elsewhere. Data folder: {settings.data}."
    )
    with Service(settings, env) as service:
        paper.step("The service", "myna serve")
        if wanted != settings.port:
            paper.say(f"Port {wanted} is in use; this run uses {settings.port}.", "yellow")
        ready = f"{service.root_url} (ready in {service.wait_ready():.1f} s)"
        paper.rows(("address", ready), ("log", str(service.log)))
        user = User(service, paper)
        Tour(user, settings, paper).run()
        if ends_by_itself():
            paper.title("\nEvery step worked. `make demo` also keeps serving and prints the key.")
            return
        _invite(user, settings, paper)
        go_on(paper, service)


def _invite(user: User, settings: Settings, paper: Paper) -> None:
    """What to do next."""
    body = '{"model":"svc-chat","messages":[{"role":"user","content":"Hi"}]}'
    paper.title("\nYour turn. The service keeps running; paste this into another terminal:")
    paper.paste(
        f"export OPENAI_BASE_URL={user.base_url}",
        f"export OPENAI_API_KEY={user.key}",
        f"curl $OPENAI_BASE_URL/chat/completions -H \"Authorization: Bearer $OPENAI_API_KEY\" -d '{body}'",
    )
    if settings.chat_url == "parrot:":
        paper.title("A real model instead of the parrot: any OpenAI-compatible URL, such as Ollama's.")
        paper.paste("MYNA_CHAT_URL=http://127.0.0.1:11434/v1 MYNA_CHAT_MODEL=llama3.2 make demo")
    paper.rows(
        ("more units", f"MYNA_DATA={settings.data} .venv/bin/myna account grant {ACCOUNT} 100"),
        ("compute nodes", "make demo-node"),
        ("read on", "README.md, docs/real-models.md, docs/configuration.md"),
        ("stop", "Ctrl-C"),
    )


if __name__ == "__main__":
    sys.exit(perform(play))
