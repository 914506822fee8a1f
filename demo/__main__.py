"""`python -m demo`. Exit 0: all went well, or Ctrl-C ended it; 1: something failed; 2: a setting is wrong."""

import os
import signal
import sys

from demo.paper import Paper
from demo.service import DemoFailed, Service, settle
from demo.tour import ACCOUNT, Tour
from myna.errors import ConfigError
from myna.settings import Settings

FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130


def main() -> int:
    """The whole demo; the exit code."""
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # all of them are Ctrl-C
        signal.signal(name, signal.default_int_handler)
    paper = Paper()
    try:
        settings, env, wanted = settle(os.environ)
    except (ConfigError, DemoFailed) as error:
        paper.failure(str(error))
        return WRONG_USAGE if isinstance(error, ConfigError) else FAILED
    paper.title("Myna: your own AI service, with chat and speech behind API keys and prepaid units.")
    paper.say(f"Nothing leaves this machine unless you say so. Everything is kept in {settings.data}.")
    service = Service(settings, env)
    try:
        return _show(service, settings, paper, wanted)
    except (DemoFailed, OSError) as error:
        service.stop()
        paper.failure(str(error), service.log_tail())
        return FAILED
    except KeyboardInterrupt:
        paper.failure("interrupted.")
        return INTERRUPTED
    finally:
        service.stop()


def _show(service: Service, settings: Settings, paper: Paper, wanted: int) -> int:
    paper.step("The service", "myna serve")
    if wanted != settings.port:
        paper.say(f"Port {wanted} is taken, so it's {settings.port} this time.", "yellow")
    ready = f"{service.root_url} (ready in {service.wait_ready():.1f} s)"
    paper.rows(("address", ready), ("log", str(service.log)))
    tour = Tour(service, settings, paper)
    tour.run()
    if os.environ.get("ONCE", "") not in ("", "0"):
        paper.title("\nAll of it worked. `make demo` does the same, goes on serving and gives you the key.")
        return 0
    _invite(tour, settings, paper)
    try:
        code = service.process.wait()
    except KeyboardInterrupt:
        paper.title("\nStopping; calls under way are finished first.")
        return 0
    raise DemoFailed(f"the service ended by itself with exit code {code}.")


def _invite(tour: Tour, settings: Settings, paper: Paper) -> None:
    """What to do next."""
    body = '{"model":"svc-chat","messages":[{"role":"user","content":"Hi"}]}'
    paper.title("\nYour turn. The service goes on; paste this into another terminal:")
    paper.paste(
        f"export OPENAI_BASE_URL={tour.base_url}",
        f"export OPENAI_API_KEY={tour.key}",
        f"curl $OPENAI_BASE_URL/chat/completions -H \"Authorization: Bearer $OPENAI_API_KEY\" -d '{body}'",
    )
    if settings.chat_url == "parrot:":
        paper.title("A real model instead of the parrot: any OpenAI-compatible URL, such as Ollama's.")
        paper.paste("MYNA_CHAT_URL=http://127.0.0.1:11434/v1 MYNA_CHAT_MODEL=llama3.2 make demo")
    paper.rows(
        ("more units", f"MYNA_DATA={settings.data} .venv/bin/myna account grant {ACCOUNT} 100"),
        ("read on", "README.md, docs/real-models.md, docs/configuration.md"),
        ("stop", "Ctrl-C"),
    )


if __name__ == "__main__":
    sys.exit(main())
