"""Which instructions ask for speech, and which of their words are spoken."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from myna.chat.intent import KEYWORDS, speech_text

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
