"""The subset of SSML, in the notation that voices read, and the notation for engines that read none."""

import pytest

from myna.engines.text.notation import flat
from myna.engines.text.ssml import unmarked


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("好<break time='1.5s'/>不", "好[](:break 1500)不"),
        ("a<break/>b<break time='70s'/>", "a[](:break 300)b[](:break 5000)"),
        ('<sub alias="World Wide Web">WWW</sub>', "World Wide Web"),
        ('<say-as interpret-as="characters">a1</say-as>', "[a1](:characters)"),
        ('<say-as interpret-as="date" format="dmy">5/6/2024</say-as>', "[5/6/2024](:date dmy)"),
        ('<phoneme alphabet="ipa" ph="təˈmeɪtoʊ">tomato</phoneme>', "[tomato](/təˈmeɪtoʊ/)"),
        ('<phoneme ph="hang2 zhang3">行长</phoneme>', "[行长](/hang2 zhang3/)"),
        ('<lang xml:lang="fr-FR">bon <break time="9ms"/>jour</lang>', "[bon , jour](:lang fr-FR)"),
        ("a<b, c>d &lt; <b>x</b> <break", "a<b, c>d &lt; <b>x</b> <break"),
        ('<sub alias="x">not closed, </lang> not opened', '<sub alias="x">not closed, </lang> not opened'),
        ("<speak><p>1 &lt; 2&#33;</p><s>好</s></speak>", "1 < 2!\n好 "),
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
