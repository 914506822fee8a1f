"""Text to pieces of phonemes: marks, pauses, limits, English words, addresses, and what can't be spoken; and
espeak-ng's IPA to the symbols of the model."""

from collections.abc import Callable

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from myna.engines.kokoro.job import Piece, TextJob
from myna.engines.kokoro.symbols import NUMBERS
from myna.engines.kokoro.text.english import Spelled, spelled, symbols, with_letter_a
from myna.engines.kokoro.text.pieces import PIECE_SYMBOLS_MAX, read

NOT_LETTERS = regex.compile(r"[^a-z ]+")


def letters(text: str, _language: str = "") -> str:
    """Replaces espeak-ng: most letters are symbols of the model themselves."""
    return NOT_LETTERS.sub(" ", text.lower())


def pieces(
    text: str, language: str = "zh-CN", ipa: Callable[[str, str], str] = letters, *, begin_early: bool = False
) -> list[Piece]:
    return read(TextJob(text, language, begin_early), ipa).pieces


def said(text: str, language: str = "zh-CN") -> str:
    return " | ".join(piece.phonemes for piece in pieces(text, language))


def test_a_sentence_is_a_piece_with_the_pause_of_its_mark() -> None:
    assert [(piece.phonemes, piece.pause_s) for piece in pieces("你好，世界！再见。好")] == [
        ("ni↗xau↓, ʂɨ↘ʨje↘!", 0.4),
        ("ʦai↘ʨjɛ↘n.", 0.4),
        ("xau↓.", 0.0),
    ]


def test_to_begin_early_the_first_piece_is_a_clause() -> None:
    text = "今天，我们去公园散步吧，晚上想吃什么，可以告诉我。我们走吧，好的。"
    whole = [piece.phonemes for piece in pieces(text)]
    early = [piece.phonemes for piece in pieces(text, begin_early=True)]
    assert [len(whole), len(early)] == [2, 3]
    assert " ".join(early) == " ".join(whole) and early[0].endswith("pa,")


def joined(text: str, _language: str) -> str:
    """As espeak-ng, which says some words as one: here each `of` and what follows."""
    return letters(text).replace("of ", "of")


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("“Hi,” she said.", "en-US", ["“Hi,” =hi", "she =shA", "said.=said"]),
        (
            "a bit of a lot of us",
            "en-US",
            ["a =a", "bit =bit", "of =ɔf", "a =a", "lot =lɔt", "of =ɔf", "us=us"],
        ),
        ("pay $12.50 now", "en-US", ["pay =pay", "$12.50 =twAlvA dɔllaɹs fifty cAnts", "now=nɔw"]),
        ("他花12.50元买。", "zh-CN", ["他花=tʰa→xwa→", "12.50=ʂɨ↗ɚ↘tjɛ↓n u↓li↗ŋ", "元=ɥɛ↗n", "买。=mai↓"]),
        (
            "[重庆](/chong2 qing4/)的[Bo](/bo1 bo5/)好",
            "zh-CN",
            ["重庆=ꭧʰʊ↗ŋʨʰi↘ŋ", "的=tɤ", "Bo=pwo→ pwo", "好=xau↓"],
        ),
        (
            "用PDF和bus[747](:characters)",
            "zh-CN",
            ["用=jʊ↘ŋ", "PDF=pʰˈi dˈi ˈɛf", "和=xɤ↗", "bus=bus", "747=ʨʰi→ sɨ↘ ʨʰi→"],
        ),
    ],
)
def test_the_words_of_a_text_are_as_it_is_written(text: str, language: str, expected: list[str]) -> None:
    found = [
        f"{word.text}={piece.phonemes[word.begin : word.end]}"
        for piece in pieces(text, language, joined)
        for word in piece.words
    ]
    assert found == expected


def test_english_words_within_mandarin_make_a_mixed_piece() -> None:
    (piece,) = pieces("我们的 bus 很好。")
    assert (piece.phonemes, piece.mixed) == ("wo↓mən tɤ bus xə↗n xau↓.", True)


def test_all_pieces_of_a_mixed_text_are_mixed() -> None:
    assert [piece.mixed for piece in pieces("你好。再见！我有 bus。")] == [True] * 3
    assert [piece.mixed for piece in pieces("Hello. Bye.", "en-US")] == [False] * 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PDF 文件", "pʰˈi dˈi ˈɛf wə↗nʨjɛ↘n"),
        ("NASA 的", "nasa tɤ"),
        ("APIs 是", "ˈA pʰˈi ˈIz ʂɨ↘"),
        ("As I 说", "as ˈI ʂwo→"),
        ("iPhone 十五", "ˈI phɔnA ʂɨ↗u↓"),
        ("iPhone 15 好", "ˈI phɔnA ʂɨ↗u↓ xau↓"),
        ("SaaS 和 vip 卡，PhD", "sass xɤ↗ vˈi ˈI pʰˈi kʰa↓, pʰˈi ˈAʧ dˈi"),
        ("用5G上网", "jʊ↘ŋ u↓ ʤˈi ʂa↘ŋwa↓ŋ"),
        ("B2B 和 C++", "bˈi tɔ bˈi xɤ↗ sˈi ʨja→ʨja→"),
        ("发到 jan9@acme.com 吧", "fa→tau↘ jan ʨjou↓ ai↘tʰɤ↘ akmA tjɛ↓n kɔm pa"),
        ("看 https://www.acme.com/ 吧", "kʰa↘n akmA tjɛ↓n kɔm pa"),
        ("1+1=2", "i→ʨja→ i→ tə↓ŋy↗ ɚ↘"),
        ("123", "i↘pai↓ɚ↘ʂɨ↗ sa→n"),
    ],
)
def test_names_and_addresses_as_a_mandarin_voice_says_them(text: str, expected: str) -> None:
    assert said(text).replace("c", "k") == expected + "."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mail jo@acme.com, please.", "mail jɔ at akmA dɔt kɔm, plAasA."),
        ("Dr. Who waits.", "dɔktɔɹ whɔ waits."),
        ("Why?! No...", "why? | nɔ…"),
        ("It (he) sat.", "it, hA, sat."),
        ("Sit (now)", "sit, nɔw."),
        ("A line\nthat goes on.\nNot", "a linA that ɡɔAs ɔn. | nɔt."),
    ],
)
def test_english_text(text: str, expected: str) -> None:
    assert said(text, "en-US").replace("c", "k") == expected


def test_a_mandarin_voice_reads_an_english_sentence_in_english() -> None:
    heard: list[str] = []
    pieces("我有 2 only。I have 15 pets.", "zh-CN", lambda text, _language: heard.append(text) or text)
    assert heard == ["only", "I have fifteen pets"]


def test_a_long_sentence_is_cut_at_its_clauses() -> None:
    found = pieces("我们去看看，" * 60 + "好。")
    assert len(found) > 1
    assert all(piece.phonemes.endswith(",") and piece.pause_s == 0.15 for piece in found[:-1])


def test_a_sentence_is_cut_into_pieces_of_about_one_size() -> None:
    (first, second) = pieces("我们去看看，" * 9 + "好。")
    assert 0.8 < len(first.phonemes) / len(second.phonemes) < 1.25


def test_a_long_clause_is_cut_between_words_without_a_pause() -> None:
    found = pieces("我们去看看" * 80)
    assert len(found) > 1
    assert {piece.pause_s for piece in found} == {0.0}
    assert "".join(piece.phonemes for piece in found).count("wo↓mən") == 80


@pytest.mark.parametrize("text", ["", " \n", "，。", "สวัสดี", "😀", "\ud800", "привет"])
def test_a_text_without_a_sound_has_no_pieces(text: str) -> None:
    assert pieces(text) == []


@pytest.mark.parametrize(
    ("text", "unspoken"),
    [
        ("你好 hello αβ, 15%! (*a*) “b” #", {}),
        ("你好สวัสดี😀 привет ⊎", {"Thai": 4, "Emoji": 1, "Cyrillic": 6, "Sign": 1}),
        ("\U000323a0", {"Han": 1}),
        ("λόγος γ", {}),
        ("[行长](/hang2zhang3/)[](:break 9)[a](/bˈ/)", {}),
    ],
)
def test_characters_that_are_not_spoken_are_counted(text: str, unspoken: dict[str, int]) -> None:
    assert read(TextJob(text, "zh-CN"), letters).unspoken == unspoken


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[行长](/hang2 zhang3/)", "xa↗ŋꭧa↓ŋ."),
        ("[银行](/yin2xing2/)[东西](/dong1xi1/)", "i↗nɕi↗ŋ tʊ→ŋɕi→."),
        ("水[果](/guo3/)", "ʂwei↗kwo↓."),
        ("[747](/qi1si4qi1/)机", "ʨʰi→ sɨ↘ ʨʰi→ ʨi→."),
        ("[麦娜](/卖纳/)好", "mai↘na↘ xau↓."),
        ("用[Myna](/ma-NA/)读", "jʊ↘ŋ maˈna tu↗."),
        ("[Kokoro](/kˈOkəɹO/)好", "kʰˈOkəɹO xau↓."),
        ("好[](:break 700)[](:break 300)不", "xau↓, | pu↘."),
        ("[a1](:characters)", "ˈA i→."),
        ("[12](:cardinal)个", "ʂɨ↗ɚ↘kɤ↘."),
        ("[110](:telephone)", "jau→ jau→ li↗ŋ."),
        ("[你好](:lang zh)", "ni↗xau↓."),
        ("[好](hao) [好](/hao9/) [好]", "xau↓, haɔ, xau↓, haɔ ʨjou↓, xau↓."),
        ("\U000f0000\U00100000好", "xau↓."),
    ],
)
def test_a_text_says_how_it_is_read(text: str, expected: str) -> None:
    assert said(text) == expected


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("fr-FR", "J'ai 25 € et 3 km.", ["J'ai 25 euros et 3 kilomètres"]),
        ("es-ES", "¿Tienes $5? [12](:cardinal)", ["Tienes 5 dólares", "12"]),
        ("pt-BR", "R$ 1.234,56", ["1.234,56 reais"]),
        ("it-IT", "5 km/h, [Myna](/MAI-na/)", ["5 chilometri all'ora", "mai", "na"]),
        ("hi-IN", "₹5 है। 好", ["5 रुपये है"]),
    ],
)
def test_other_languages_are_read_by_espeak(language: str, text: str, expected: list[str]) -> None:
    asked: list[tuple[str, str]] = []

    def foreign(words: str, spoken: str) -> str:
        asked.append((words.strip(), spoken))
        return " ".join("t^ʃa" for _ in words.split())

    found = pieces(text, language, foreign)
    assert asked == [(words, language.lower()) for words in expected]
    assert "ʧa" in found[0].phonemes


def test_a_break_is_a_pause_also_at_the_end() -> None:
    found = pieces("好[](:break 700)[](:break 300)不[](:break 99000)")
    assert [piece.pause_s for piece in found] == [1.0, 5.0]


ALPHABET = st.sampled_from("一不好了行得地 长儿aAbIx1２9.,!?，。！？；\n …—()（）@/:+=&#$%'-_😀ไ\ud800éα")


@settings(max_examples=150, deadline=None)
@given(st.text(ALPHABET, max_size=300), st.sampled_from(("zh-CN", "en-US", "en-GB")))
def test_pieces_fit_the_model(text: str, language: str) -> None:
    found = pieces(text, language)
    for piece in found:
        assert 0 < len(piece.phonemes) <= PIECE_SYMBOLS_MAX
        assert set(piece.phonemes) <= NUMBERS.keys()
        assert 0.0 <= piece.pause_s <= 0.4
    assert not found or found[-1].pause_s == 0.0


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(["好", "好，", "好。", "好\n", "pat ", "v" * 700 + " "]), max_size=200))
def test_nothing_is_omitted(parts: list[str]) -> None:
    text = "".join(parts)
    spoken = "".join(piece.phonemes for piece in pieces(text))
    assert spoken.count("v") == text.count("v")
    assert spoken.count("pat") == text.count("pat")
    assert spoken.count("au") == text.count("好")


@pytest.mark.parametrize(
    ("ipa", "american", "british"),
    [
        ("həlˈo^ʊ", "həlˈO", "həlˈQ"),
        ("həlˈəʊ", "həlˈəʊ", "həlˈQ"),
        ("wˈɜːld", "wˈɜɹld", "wˈɜːld"),
        ("nˈa^ɪn", "nˈIn", "nˈIn"),
        ("naɪn", "nIn", "nIn"),
        ("d^ʒˈʌd^ʒ", "ʤˈʌʤ", "ʤˈʌʤ"),
        ("t^ʃˈa^ɪld", "ʧˈIld", "ʧˈIld"),
        ("bˈʌɾɚ", "bˈʌTəɹ", "bˈʌɾəɹ"),
        ("bˈʌʔn̩", "bˈʌtᵊn", "bˈʌtᵊn"),
        ("lˈɪɾəl", "lˈɪTᵊl", "lˈɪɾᵊl"),
        ("ɐbˈa^ʊt", "əbˈWt", "əbˈWt"),
        ("hˈɪɹ", "hˈɪɹ", "hˈɪɹ"),
        ("ð^ə", "ðə", "ðə"),
        ("ɬ\u0001x", "lk", "lk"),
    ],
)
def test_symbols(ipa: str, american: str, british: str) -> None:
    assert symbols(ipa, british=False) == american
    assert symbols(ipa, british=True) == british


@pytest.mark.parametrize("text", ["the A P I", "U S A", "ten A M", "vitamin A is", "A T and T"])
def test_the_letter_a_has_its_sound(text: str) -> None:
    """espeak-ng reads an A within a text as the article."""
    assert with_letter_a(text) == text.replace("A", "eigh")


@pytest.mark.parametrize("text", ["A cat.", "A T-shirt", "Once Upon A Time", "the A's"])
def test_an_article_and_a_part_of_a_word_stay(text: str) -> None:
    assert with_letter_a(text) == text


def test_letters_one_by_one() -> None:
    assert spelled(Spelled("PDFÉ")) == "pʰˈi dˈi ˈɛf ˈi"


@pytest.mark.parametrize(
    ("ipa", "expected"),
    [("tˈiːm", "tʰˈim"), ("stˈɑp", "stˈɑp"), ("ˈɑpən", "ˈɑpən"), ("kˌoʊd pˈɛn", "kʰˌOd pʰˈɛn")],
)
def test_a_mandarin_voice_aspirates_stops_before_a_stressed_vowel(ipa: str, expected: str) -> None:
    assert symbols(ipa, mandarin=True) == expected
