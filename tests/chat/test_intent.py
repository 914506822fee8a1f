"""Keywords for speech, Han characters, the lengths of contexts, and servers on this machine."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st

from myna.config import context_lengths
from myna.gateway.intent import KEYWORDS, speech_text
from myna.gateway.models import KNOWN, MODELS_MAX, FoundServer, KnownServer, find_servers, lengths_in
from myna.http.client import HttpClient
from myna.wire.completions import han_count
from tests.rig.waiting import free_port

SPOKEN = [
    # What follows the first colon after the keyword.
    ("配音：你好世界", "你好世界"),
    ("请朗读:你好世界", "你好世界"),
    ("请帮我配音： 大家好，欢迎收看。 ", "大家好，欢迎收看。"),
    ("朗读\n：\n第一行\n第二行\n", "第一行\n第二行"),
    ("请用温柔的女声朗读下面的文字：春眠不觉晓", "春眠不觉晓"),
    ("把下面这段话转成语音：1:2 是比例", "1:2 是比例"),
    ("注意：请朗读：开始", "开始"),
    ("朗读，地址 http://a.com", "//a.com"),
    ("朗读 8:30 的“新闻”", "30 的“新闻”"),
    ("朗读：配音：你好", "配音：你好"),
    ("朗读配音：你好", "你好"),
    ("旁白：他说“走吧”，就走了", "他说“走吧”，就走了"),
    ("朗读“通知：明天放假”", "明天放假”"),
    ("朗读：“你好”", "你好"),
    ("朗读：「他说『好』」", "他说『好』"),
    ('朗读："hello" and "bye"', '"hello" and "bye"'),
    ("朗读：''你好''", "''你好''"),
    ("朗读：“ ”，其余的", "“ ”，其余的"),
    # The text in quotes.
    ("请朗读“你好世界”", "你好世界"),
    ("“你好世界”，请配音", "你好世界"),
    ('请把"hello, world"念出来', "hello, world"),
    ("朗读「春晓」和『静夜思』", "春晓"),
    ("朗读『他说「走」了』吧", "他说「走」了"),
    ("朗读‘你好’", "你好"),
    ("朗读'你好'吧", "你好"),
    ("朗读'hello'谢谢", "hello"),
    ("朗读“don't stop”", "don't stop"),
    ("朗读'don't stop'", "don't stop"),
    ("I don't know, 朗读'你好'", "你好"),
    ("朗读“他说“好”就走”", "他说“好”就走"),
    ("朗读“”和“你好”", "你好"),
    ("朗读：“”", "朗读：“”"),
    ("请朗读：\n“你好”", "你好"),
    ("“明天放假”配音：", "明天放假"),
    ("什么是“配音”？", "配音"),
    ("朗读“ 前后有空格 ”", "前后有空格"),
    ("朗读“没有关上", "“没有关上"),
    ("朗读没有打开”的", "没有打开”的"),
    ("朗读 I don't and you don't", "I don't and you don't"),
    # The instruction without the keyword and the words that introduce it.
    ("朗读你好世界", "你好世界"),
    ("请朗读你好世界。", "你好世界。"),
    ("请你朗读 你好世界", "你好世界"),
    ("麻烦你帮我朗读一下你好世界", "你好世界"),
    ("请帮我把你好世界念出来", "你好世界"),
    ("帮我把你好世界转成语音吧", "你好世界"),
    ("你好世界，请配音", "你好世界"),
    ("你好世界！请帮我念出来，谢谢！", "你好世界！"),
    ("你好世界请配音", "你好世界"),
    ("把这句话念出来，我爱你", "我爱你"),
    ("请将以下文字转成语音 你好", "你好"),
    ("请为这段文字配音，今天天气很好", "今天天气很好"),
    ("能不能帮我朗读这段话？春天来了", "春天来了"),
    ("我想听你朗读静夜思", "静夜思"),
    ("给我朗读一下春晓", "春晓"),
    ("朗读给我一个理由", "给我一个理由"),
    ("朗读下面的风景真美", "下面的风景真美"),
    ("将你好世界进行语音合成", "你好世界"),
    ("对你好世界进行语音合成", "你好世界"),
    ("文字转语音 你好世界", "你好世界"),
    ("文字转语音合成 你好世界", "你好世界"),
    ("文字转成语音，你好世界", "你好世界"),
    ("用欢快的语气朗读祝你生日快乐", "祝你生日快乐"),
    ("为视频做旁白，从前有座山", "从前有座山"),
    ("从前有座山，请用女声做旁白", "从前有座山"),
    ("请生成你好世界的配音", "你好世界"),
    ("给你好世界配音", "你好世界"),
    ("please 朗读 hello world", "hello world"),
    ("hello world, 朗读 please", "hello world"),
    ("我想你了，念出来", "我想你了"),
    ("请勿吸烟念出来", "请勿吸烟"),
    ("将进酒，请朗读", "将进酒"),
    ("今天很好。请朗读。明天也好。", "今天很好。明天也好。"),
    ("小明说朗读很重要", "小明说很重要"),
    ("朗读谢谢", "谢谢"),
    ("朗读-5度", "-5度"),
    ("朗读😀", "😀"),
    # Nothing is left: the whole instruction.
    ("配音", "配音"),
    (" 请配音。\n", "请配音。"),
    ("可以帮我朗读这段话吗？", "可以帮我朗读这段话吗？"),
    ("朗读：", "朗读："),
    ("请把这段文字转成语音", "请把这段文字转成语音"),
]


def test_an_instruction_with_a_keyword_is_spoken() -> None:
    assert {instruction: speech_text(instruction) for instruction, _ in SPOKEN} == dict(SPOKEN)


def test_an_instruction_without_a_keyword_is_chat() -> None:
    for instruction in (
        *("", " \n", "你好", "请朗讀：你好", "請配 音：你好", "语音：你好", "文字转 语音", "念：出来"),
        *("合成语音", "read this aloud: hello", "转成音频：“你好”", "读出来", "TTS：你好"),
    ):
        assert speech_text(instruction) is None, instruction


def test_each_of_the_seven_keywords_asks_for_speech() -> None:
    keywords = ("配音", "朗读", "旁白", "语音合成", "文字转语音", "转成语音", "念出来")
    assert sorted(KEYWORDS) == sorted(keywords)
    for keyword in keywords:
        assert speech_text(f"请{keyword}：你好") == "你好"


_PIECES = st.lists(
    st.sampled_from(
        [*KEYWORDS, "请", "帮我", "把", "这段话", "你好", "hello", "don't", "，", "。", "：", ":", " "]
    )
    | st.sampled_from(
        ["“", "”", '"', "「", "」", "『", "』", "‘", "’", "'", "\n", "一下", "用女声", "的", "吗", "？"]
    )
    | st.text(max_size=3),
    max_size=12,
).map("".join)


@settings(max_examples=50)
@given(_PIECES | st.text(st.characters()))
def test_an_instruction_asks_for_speech_if_and_only_if_it_has_a_keyword(instruction: str) -> None:
    text = speech_text(instruction)
    assert (text is None) == (not any(keyword in instruction for keyword in KEYWORDS))


@settings(max_examples=50)
@given(_PIECES, st.sampled_from(KEYWORDS), _PIECES)
@example("0\f，", "配音", "")
def test_the_spoken_text_is_a_subsequence_of_the_instruction(before: str, keyword: str, after: str) -> None:
    text = speech_text(before + keyword + after)
    assert text and text.strip() == text
    rest = iter(before + keyword + after)
    assert all(char in rest for char in text)


@settings(max_examples=50)
@given(_PIECES, st.sampled_from(KEYWORDS))
def test_all_that_follows_the_colon_is_spoken(text: str, keyword: str) -> None:
    text = "一" + text.strip() + "一"
    assert speech_text(f"请{keyword}：{text}") == text


@settings(max_examples=50)
@given(st.text("甲乙丙丁ab ,，。", min_size=1), st.sampled_from(["“”", '""', "「」", "『』", "‘’", "''"]))
def test_the_text_in_quotes_is_spoken(text: str, marks: str) -> None:
    text = "一" + text + "一"
    assert speech_text(f"请朗读{marks[0]}{text}{marks[1]}") == text


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("hello, world 123", 0),
        ("你好，世界。", 4),
        ("Hello 世界 2024年", 3),
        ("朗讀繁體", 4),
        ("〇々〻", 3),
        ("𠮷野家", 3),
        ("⺀⼀豈", 3),
        ("ひらがなカタカナ", 0),
        ("한국어", 0),
        ("，。！？：“”「」、…—　", 0),
        ("😀①㎡％ｗ", 0),
        ("\ud800你\x00", 1),
        ("龘" * 1000, 1000),
    ],
)
def test_code_points_of_the_han_script_are_counted(text: str, count: int) -> None:
    assert han_count(text) == count


def test_the_table_of_ranges_matches_the_regex_module() -> None:
    every = "".join(chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)
    assert han_count(every) == len(regex.findall(r"\p{Script=Han}", every))
    assert han_count("".join(regex.findall(r"\P{Script=Han}+", every))) == 0


@pytest.mark.parametrize(
    ("listed", "lengths"),
    [
        ('{"data":[{"id":"a","max_model_len":4096},{"id":"b"}]}', {"a": 4096}),
        ('{"data":[{"id":"a","context_length":131072,"top_provider":{"context_length":4096}}]}', {"a": 4096}),
        ('{"data":[{"id":"a","context_window":8192}]}', {"a": 8192}),
        ('{"data":[{"id":"a","max_context_length":32768}]}', {"a": 32768}),
        ('{"data":[{"id":"a","meta":{"n_ctx_train":131072,"n_ctx":2048}}]}', {"a": 2048}),
        ('{"data":[{"id":"a","meta":{"n_ctx_train":131072}}]}', {}),
        ('{"data":[{"id":"a","context_length":"many"},7,{"id":"b","context_length":true}]}', {}),
        ('{"data":null}', {}),
        ("[]", {}),
    ],
    ids=[
        *("vLLM", "OpenRouter", "Groq", "Mistral", "llama.cpp", "what it was trained with", "odd", "none"),
        "no list",
    ],
)
def test_the_length_is_the_one_that_the_server_serves(listed: str, lengths: dict[str, int]) -> None:
    assert lengths_in(listed.encode()) == lengths


OTHER_PORT = 1


@contextlib.asynccontextmanager
async def server(body: bytes, status: str = "200 OK") -> AsyncIterator[KnownServer]:
    """A server that answers every request with this body."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"GET /v1/models ")
        writer.write(
            f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
        )
        writer.write(body)
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with listening:
        port = listening.sockets[0].getsockname()[1]
        yield KnownServer("ollama", "Ollama", f"http://127.0.0.1:{port}/v1")


async def found(*known: KnownServer, own_port: int = OTHER_PORT) -> list[FoundServer]:
    client = HttpClient(connections_max=4)
    try:
        return await find_servers(client, own_port, known)
    finally:
        await client.close()


async def test_a_server_is_found_with_its_models() -> None:
    listed = {"object": "list", "data": [{"id": "llama3.2"}, {"id": "qwen3", "object": "model"}]}
    async with server(json.dumps(listed).encode()) as known:
        assert await found(known) == [FoundServer(known, ["llama3.2", "qwen3"])]


@pytest.mark.parametrize("body", [b'{"object":"list","data":null}', b'{"data":[]}'])
async def test_a_server_without_models_is_found(body: bytes) -> None:
    async with server(body) as known:
        assert await found(known) == [FoundServer(known, [])]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"<html>some other program</html>", "200 OK"),
        (b'["a list"]', "200 OK"),
        (b'{"data":[{"id":7}]}', "200 OK"),
        (b'{"data":[{"id":"m"}]}', "401 Unauthorized"),
    ],
)
async def test_another_program_is_left_out(body: bytes, status: str) -> None:
    async with server(body, status) as known:
        assert await found(known) == []


async def test_a_port_without_a_server_and_the_own_port_are_left_out() -> None:
    no_server = KnownServer("vllm", "vLLM", f"http://127.0.0.1:{free_port()}/v1")
    async with server(b'{"data":[{"id":"m"}]}') as known:
        port = int(known.url.split(":")[2].removesuffix("/v1"))
        assert await found(no_server, known, own_port=port) == []


async def test_names_and_numbers_of_models_are_bounded() -> None:
    models = [{"id": "x" * 201}, {"id": "a\nb"}, *({"id": f"m{number}"} for number in range(MODELS_MAX + 1))]
    async with server(json.dumps({"data": models}).encode()) as known:
        (one,) = await found(known)
        assert one.models == [f"m{number}" for number in range(MODELS_MAX)]


def test_only_loopback_is_searched() -> None:
    assert {server.url.split(":")[1] for server in KNOWN} == {"//127.0.0.1"}


def test_the_operator_says_lengths_by_model() -> None:
    assert context_lengths(" a=b=10,gpt-*=128000, ") == {"a=b": 10, "gpt-*": 128_000}
    for text in ("a", "a=", "=5", "a=0", "a=1.5", "a=5,a=6", "a=5 b=6"):
        with pytest.raises(ValueError, match="must be MODEL=TOKENS"):
            context_lengths(text)
