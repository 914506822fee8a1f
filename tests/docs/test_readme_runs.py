"""The commands of the README, and of the pages that go on from it, work as they say."""

import json
import os
import re
import sys

import pytest

from tests.docs.pages import DOCS, README, README_ZH, Command, Fence, commands, fences
from tests.rig.commands import output_of
from tests.rig.compute_node import ComputeNode, NodeMaker
from tests.rig.service import Service, ServiceMaker

pytestmark = pytest.mark.slow
RUN_DEADLINE_S = 60


class Newcomer:
    """Runs the commands of the README against a service with the parrot; those for another machine run
    there."""

    def __init__(self, service: Service, machine: ComputeNode) -> None:
        self._service = service
        self._machine = machine
        self._token = ""
        self._env = {
            "MYNA": service.root_url,
            "OPENAI_BASE_URL": f"{service.root_url}/openai/v1",
            "OPENAI_API_KEY": service.account().key().plain,
        }
        self.answers: list[str] = []

    def follow(self, fence: Fence) -> None:
        if fence.language == "python":
            self.answers.append(self._run([sys.executable, "-W", "error", "-c", fence.text]))
        elif fence.language == "sh":
            for command in commands(fence):
                self._type(command)

    def _type(self, command: Command) -> None:
        """`make`, `myna serve` and `export` have been done already."""
        if command.program == "curl":
            self.answers.append(self._run(["sh", "-c", command.line + " --silent --fail-with-body"]))
        elif command.program == "myna" and command.arguments[:2] == ["node", "join"]:
            self._machine.join(self._service.root_url, self._token)
        elif command.program == "myna" and command.arguments == ["node", "run"]:
            self._machine.start()
        elif command.program == "myna" and command.arguments != ["serve"]:
            ended = self._service.command(*command.arguments)
            assert ended.code == 0, (command.line, ended)
            if issued := re.search(r"myna_[0-9a-f]{40}", ended.stdout):
                self._env["OPENAI_API_KEY"] = issued[0]
            if token := re.search(r"mynajoin_[0-9a-f]{40}", ended.stdout):
                self._token = token[0]

    def _run(self, arguments: list[str]) -> str:
        env = {**os.environ, **self._env, "NO_PROXY": "127.0.0.1", "PYTHONIOENCODING": "utf-8"}
        return output_of(arguments, env, self._service.folder, RUN_DEADLINE_S)


def followed() -> list[Fence]:
    """The blocks of the README and of the pages that go on from it."""
    nodes = [
        fence for fence in fences(DOCS / "nodes.md") if re.search(r"enroll garage$|node join", fence.text)
    ]
    return [*fences(README), *fences(DOCS / "api.md"), *nodes, *fences(DOCS / "routes.md")]


def test_the_commands_of_the_readme_work_in_order(make_service: ServiceMaker, make_node: NodeMaker) -> None:
    service, machine = make_service(chat_url="parrot:").start(), make_node()
    newcomer = Newcomer(service, machine)
    for fence in followed():
        newcomer.follow(fence)
    hello, chat, spoken, by_chat = newcomer.answers
    assert hello == "🦜 Hello, who is there?\n"
    assert json.loads(chat)["choices"][0]["message"]["content"] == "🦜 Hi"
    promised = json.loads(re.findall(r"answers `(\{.*?\})`", (DOCS / "api.md").read_text("utf-8"))[0])
    answered = json.loads(spoken)
    assert answered.pop("audio_url").endswith(".mp3")
    assert promised.pop("audio_url").endswith(".mp3")
    assert answered == promised
    url = json.loads(by_chat)["choices"][0]["message"]["content"]
    assert re.fullmatch(re.escape(service.root_url) + r"/uploads/[0-9a-f]{32}\.mp3", url)
    assert {account["name"]: account["balance"] for account in service.cli("account", "list")}["me"] == 97
    (node,) = service.cli("node", "list")
    assert (node["name"], node["state"], len(node["voices"])) == ("garage", "online", 15)
    assert machine.stop() == 0


def test_the_commands_of_the_chinese_readme_work(make_service: ServiceMaker, make_node: NodeMaker) -> None:
    service = make_service(chat_url="parrot:").start()
    newcomer = Newcomer(service, make_node())
    for fence in fences(README_ZH):
        newcomer.follow(fence)
    assert newcomer.answers == ["🦜 你好，你是谁？\n", ""]
    assert (service.folder / "hello.mp3").stat().st_size > 1000


def test_a_backup_made_as_documented_is_whole(make_service: ServiceMaker, make_node: NodeMaker) -> None:
    """The service keeps running; the copy becomes a separate data folder."""
    service = make_service(chat_url="parrot:").start()
    service.account(name="talkative")
    newcomer = Newcomer(service, make_node())
    newcomer.follow(next(fence for fence in fences(DOCS / "api.md") if "/tts" in fence.text))
    assert len(newcomer.answers) == 1
    typed = [
        command
        for fence in fences(DOCS / "operations.md")
        if fence.language == "sh"
        for command in commands(fence)
        if command.arguments[:1] in (["backup"], ["restore"])
    ]
    assert [command.arguments[0] for command in typed] == ["backup", "restore"]
    for command in typed:
        ended = service.command(*command.arguments, env=command.env)
        assert ended.code == 0, ended
    env = typed[1].env
    assert service.command("audit", "--audio", env=env).code == 0
    assert '"talkative"' in service.command("account", "list", "--json", env=env).stdout
    assert len(list((service.folder / env["MYNA_DATA"]).glob("audio/*/*.mp3"))) == 1
