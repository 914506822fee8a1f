"""Integers, signs, sentences and markup of a text, and what holds for any text that is read."""

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from myna.engines.text.mandarin.numerals import cardinal, number, ordinal
from myna.engines.text.notation import flat
from myna.engines.text.others import others_in_words
from myna.engines.text.reading import in_english, spoken_form
from myna.engines.text.sentences import sentences
from myna.engines.text.signs import plain, speakable
from myna.engines.text.ssml import unmarked


@pytest.mark.parametrize(
    ("digits", "said"),
    [
        ("0", "零"),
        ("10", "十"),
        ("110", "一百一十"),
        ("222", "两百二十二"),
        ("1200", "一千二百"),
        ("2002", "两千零二"),
        ("10010", "一万零一十"),
        ("22000", "两万二千"),
        ("10010000", "一千零一万"),
        ("200000000", "两亿"),
        ("1000010000", "十亿零一万"),
        ("2300000000000", "两万三千亿"),
        ("12345678901234567", "一二三四五六七八九零一二三四五六七"),
    ],
)
def test_integers_are_read_with_place_values(digits: str, said: str) -> None:
    assert cardinal(digits) == said


def test_an_ordinal_reads_2_as_er() -> None:
    assert ordinal("2002") == "二千零二"


def test_a_decimal_keeps_its_trailing_zero() -> None:
    assert number("-1,234.50") == "负一千二百三十四点五零"


_PLAIN = st.text(
    "你好我们世界今天的儿两点上午第元一二abcXYZ，。！？、；：“”‘’「」…—·,.!?;:'\"()（）《》\\_| \n\t😀"
)
_NUMERIC = st.text("0123456789.,:/-~%+*=<>￥$年月日号元个点分第人室后路时公里 以比分到（）。，")


@given(_PLAIN, _PLAIN)
def test_nothing_around_a_number_is_lost(before: str, after: str) -> None:
    assert spoken_form(f"{before}。3个。{after}") == f"{before}。三个。{after}"


@settings(deadline=None, max_examples=40)
@given(_NUMERIC)
@example("5000元/日公里")
@example("_" + "1" * 5000 + "/" + "2" * 5000)
def test_han_between_numbers_is_kept_and_digits_are_replaced(text: str) -> None:
    said = spoken_form("好" + text)
    assert not any("0" <= char <= "9" for char in said)
    rest = iter(said)
    assert all(char in rest for char in text if "一" <= char <= "鿿"), said


@settings(deadline=None, max_examples=300)
@given(st.text(st.characters(), max_size=40) | st.text("\ud800\x00\u202e好1二-/:.'٣५①Ⅻ½"))
@example("\udfff\ud800好1")
@example("5'")
@example("9:00 - 18:00是1,000~30")
def test_no_text_raises(text: str) -> None:
    in_english(text)
    spoken_form(text)
    spoken_form("好" + text + "1")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("１２３", "123"),
        ("٣٤ १२ ๕ 𝟘𝟙", "34 12 5 01"),
        ("①②", "1 2"),
        ("⑽ ⒈ ❶ ㊂ 〣 ፩", "10 1 1 3 3 1"),
        ("ⅷ Ⅻ", "8 12"),
        ("2① ①2", "2 1 1 2"),
        ("⅛ 2⅛", "1/8 2 1/8"),
        ("Ｈｅｌｌｏ Ⓐ 𝐀", "Hello A A"),
        ("１＋１＝２ ５０％ ＄５ Ａ＆Ｂ", "1+1=2 50% $5 A&B"),
        ("３．５ ８：３０", "3.5 8:30"),
        ("⼀豈㊙", "一豈秘"),
    ],
)
def test_a_sign_is_replaced_by_its_plain_form(text: str, said: str) -> None:
    assert plain(text) == said


@pytest.mark.parametrize(
    "text", ["m² H₂O 10⁴", "½ ¼ ¾", "二〇二四", "你好，世界！～", "ㄅㄆ カ ｶ ﾞ ℃", "é ß ﬁ", "😀"]
)
def test_signs_with_a_reading_are_unchanged(text: str) -> None:
    assert plain(text) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("第③章", "第三章"),
        ("第Ⅷ章", "第八章"),
        ("有٣٤个", "有三十四个"),
        ("花$，β粒子±，Π∂", "花美元，贝塔粒子正负，派偏"),
        ("½杯水", "二分之一杯水"),
        ("2½杯水", "二又二分之一杯水"),
        ("⅛杯水", "八分之一杯水"),
        ("２０２４年５月１日", "二零二四年五月一日"),
    ],
)
def test_signs_beside_han_are_read_in_chinese(text: str, said: str) -> None:
    assert spoken_form(text) == said


@pytest.mark.parametrize("text", ["１２３", "①②", "٣٤", "ⅷ", "½", "²", "⼀", "a", "好", "Ⓐ", "\ud800 5"])
def test_a_letter_or_a_number_in_any_form_can_be_spoken(text: str) -> None:
    assert speakable(text)


@pytest.mark.parametrize("text", ["", " ", "…", "😀", "!?", "\u200b", "\u3164", "\ud800", "\u0301"])
def test_a_text_without_letters_or_numbers_cannot_be_spoken(text: str) -> None:
    assert not speakable(text)


_SIGNS = st.text(
    st.sampled_from("你好，。！？…… .,!?\n\"”」'）)aB3.14—é👩\u200d🚀e\u0301 \u3000"), max_size=200
)


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("", []),
        ("   ", ["   "]),
        ("你好。世界！真的？", ["你好。", "世界！", "真的？"]),
        ("真的吗！？是的。", ["真的吗！？", "是的。"]),
        ("他说：“走吧。”然后走了。", ["他说：“走吧。”", "然后走了。"]),
        ("「好！」他想……也许吧。", ["「好！」", "他想……也许吧。"]),
        ("圆周率是3.14，对吗？对。", ["圆周率是3.14，对吗？", "对。"]),
        ("Pi is 3.14. It is v2.0.1, see a.b.com.", ["Pi is 3.14. ", "It is v2.0.1, see a.b.com."]),
        ("Mr. Smith met Dr. Wu. They left.", ["Mr. Smith met Dr. Wu. ", "They left."]),
        ("J. R. Tolkien wrote, e.g. this. Yes.", ["J. R. Tolkien wrote, e.g. this. ", "Yes."]),
        ("He shouted “Stop!” and ran. Then rest.", ["He shouted “Stop!” and ran. ", "Then rest."]),
        ('She said "No." Then she left.', ['She said "No." ', "Then she left."]),
        ("See No. 5 and Eq. (2). No. They left.", ["See No. 5 and Eq. (2). ", "No. ", "They left."]),
        ("Keep the temp. ≥ 5. Then stop.", ["Keep the temp. ≥ 5. ", "Then stop."]),
        ("Well... maybe. Sure?! OK!", ["Well... maybe. ", "Sure?! ", "OK!"]),
        ("1. First. 2. Second.", ["1. First. ", "2. Second."]),
        ("5! = 120! So much.", ["5! = 120! ", "So much."]),
        ("一行\n二行\n\n三行", ["一行\n", "二行\n\n", "三行"]),
        ("Hello world", ["Hello world"]),
    ],
)
def test_a_text_is_split_after_its_sentences(text: str, cut: list[str]) -> None:
    assert sentences(text, 100) == cut


@pytest.mark.parametrize(
    ("text", "max_chars", "cut"),
    [
        ("春天来了，花都开了，鸟也叫了。", 12, ["春天来了，花都开了，", "鸟也叫了。"]),
        ("it costs 1,234,567 in all", 14, ["it costs ", "1,234,567 in ", "all"]),
        ("好" * 25, 10, ["好" * 10, "好" * 10, "好" * 5]),
        ("a👩\u200d🚀👩\u200d🚀", 5, ["a👩\u200d🚀", "👩\u200d🚀"]),
        ("e\u0301" * 3, 3, ["e\u0301", "e\u0301", "e\u0301"]),
        ("e" + "\u0301" * 5, 3, ["e\u0301\u0301", "\u0301\u0301\u0301"]),
    ],
)
def test_a_too_long_sentence_is_split_at_the_best_place(text: str, max_chars: int, cut: list[str]) -> None:
    assert sentences(text, max_chars) == cut


@given(st.one_of(st.text(max_size=200), _SIGNS), st.integers(1, 60))
def test_splitting_loses_no_text_and_no_piece_is_too_long(text: str, max_chars: int) -> None:
    pieces = sentences(text, max_chars)
    assert "".join(pieces) == text
    assert all(0 < len(piece) <= max_chars for piece in pieces)


def test_100000_characters_are_split_in_bounded_time() -> None:
    for sign in "好.!。 )\n":
        text = sign * 100_000
        assert "".join(sentences(text, 100)) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("好<break time='1.5s'/>不", "好[](:break 1500)不"),
        ("a<break/>b<break time='70s'/>", "a[](:break 300)b[](:break 5000)"),
        ("a<break time=500ms/>b", "a[](:break 500)b"),
        ('<sub alias="World Wide Web">WWW</sub>', "World Wide Web"),
        ('<say-as interpret-as="characters">a1</say-as>', "[a1](:characters)"),
        ('<say-as interpret-as="date" format="dmy">5/6/2024</say-as>', "[5/6/2024](:date dmy)"),
        ('<phoneme alphabet="ipa" ph="təˈmeɪtoʊ">tomato</phoneme>', "[tomato](/təˈmeɪtoʊ/)"),
        ('<phoneme ph="hang2 zhang3">行长</phoneme>', "[行长](/hang2 zhang3/)"),
        ('<lang xml:lang="fr-FR">bon <break time="9ms"/>jour</lang>', "[bon , jour](:lang fr-FR)"),
        ("a<b, c>d &lt; <b>x</b> <break", "a<b, c>d &lt; <b>x</b> <break"),
        ('<sub alias="x">not closed, </lang> not opened', '<sub alias="x">not closed, </lang> not opened'),
        ("<speak><p>1 &lt; 2&#33;</p><s>好</s></speak>", "1 < 2!\n好 "),
        ('\ufeff<!DOCTYPE speak PUBLIC "-//W3C//x" "x.dtd">\n<speak>好</speak>', "\ufeff\n好"),
    ],
)
def test_markup_becomes_notation(text: str, expected: str) -> None:
    assert unmarked(text).text == expected
    assert unmarked(text).removed == {}


@pytest.mark.parametrize(
    ("within", "text", "removed"),
    [
        ("<prosody rate='slow'>好</prosody><mark name='x'/>", "好", {"<prosody>": 1, "<mark>": 1}),
        ("<say-as interpret-as='ordinal'>3</say-as>", "3", {"<say-as>": 1}),
        ("<phoneme ph='(x)'>好</phoneme><sub>b</sub>", "好b", {"<phoneme>": 1, "<sub>": 1}),
        ("<!DOCTYPE a [<!ENTITY bomb SYSTEM 'file:///etc/passwd'>]>&bomb;&bomb;", "", {"&bomb;": 2}),
        ("<!-- no <break/> --><audio src='http://x'>好", "好", {"<audio>": 1}),
    ],
)
def test_other_markup_is_removed_and_named(within: str, text: str, removed: dict[str, int]) -> None:
    assert unmarked(f"<?xml version='1.0'?>\n<speak xml:lang='zh-CN'>{within}</speak>").removed == removed
    assert unmarked(f"<speak>{within}").text.strip() == text


@pytest.mark.parametrize("opened", ["<", "<a ", "<!--", "<sub alias='", "[x](/", "&a", "<speak>" * 9])
def test_long_texts_are_read_in_bounded_time(opened: str) -> None:
    text = f"<speak>{opened * (100_000 // len(opened))}"
    assert len(flat(unmarked(text).text)) <= len(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[行长](/hang2zhang3/)用[Myna](/MY-nuh/)", "行长用MY-nuh"),
        ("[Kokoro](/kˈOkəɹO/) waits[](:break 500) here", "Kokoro waits,  here"),
        ("[a1](:characters), [1,500](:cardinal)", "ay 1, one thousand five hundred"),
        ("电话[010-110](:telephone)", "电话零幺零，幺幺零"),
        ("[2024-05-06](:date), [13.5.2024](:date), [31/12/2024](:date dmy)",
         "May 6, 2024, May 13, 2024, December 31, 2024"),
        ("在[2024-05-06](:date)和[x](:date)", "在2024年5月6日和x"),
        ("[a](https://x.com) [b](:c) [c](/x9/)", "[a](https://x.com) [b](:c) [c](/x9/)"),
    ],
)  # fmt: skip
def test_an_engine_without_the_notation_gets_words(text: str, expected: str) -> None:
    assert flat(text) == expected


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("fr", "-5 °C, 10-15 %", "moins 5 degrés Celsius, 10 à 15 pour cent"),
        ("fr", "Mme X, Louis XIV, XXIe, 14h30", "Madame X, Louis 14, vingt-et-unième, 14 heures 30"),
        ("es", "20 ± 2 m², x ≥ 5", "20 más o menos 2 metros cuadrados, x mayor o igual que 5"),
        ("it", "12/05/2024, 3/4, 5 × 3", "12 maggio 2024, tre quarti, 5 per 3"),
        ("pt", "+55 91234-5678", "mais 55 91234 5678"),
        ("hi", "~50 & 25%", "लगभग 50 और 25 प्रतिशत"),
        ("es", "D. Juan toma vitamina D. Es buena.", "don Juan toma vitamina D. Es buena."),
    ],
)
def test_signs_of_other_languages_are_words(language: str, text: str, expected: str) -> None:
    assert others_in_words(text, language) == expected


def test_a_long_list_of_numbers_in_another_language_is_read_in_bounded_time() -> None:
    """5,000 characters take some 10 ms; a pattern of quadratic time would take seconds."""
    begin = time.process_time()
    others_in_words("1," * 2500, "es")
    assert time.process_time() - begin < 1
