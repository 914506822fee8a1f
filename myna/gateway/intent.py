"""Detects whether an instruction asks for speech, and extracts the text to speak. Pure; linear time.

It runs on the event loop for every chat request: regular expressions scan the characters, and Python code
visits at most `QUOTES_MAX` quotation marks.

The instruction asks for speech if it contains a keyword. The text is the first of these that isn't blank:
1. what follows the first ： or : after the first keyword;
2. what is inside the first pair of quotes, “” "" 「」 『』 ‘’ '', inner quotes included;
3. the instruction without the keyword and the polite words that lead to it (请帮我把…念出来);
4. the whole instruction.
"""

import re
from collections.abc import Iterator
from itertools import islice

QUOTES_MAX = 10_000
"""Quotation marks that are paired; later ones count as text."""

KEYWORDS: tuple[str, ...] = ("配音", "朗读", "旁白", "语音合成", "文字转语音", "转成语音", "念出来")

_KEYWORD = re.compile("|".join(KEYWORDS))
_COLON = re.compile("[：:]")
_CLOSING = {"“": "”", "「": "」", "『": "』", "‘": "’", '"': '"', "'": "'"}
_OPENING = {closing: opening for opening, closing in _CLOSING.items()}
_QUOTE = re.compile(f"[{''.join(_CLOSING)}{''.join(_OPENING)}]")
_VISIBLE = re.compile(r"\S")
_LATIN = re.compile(r"[0-9A-Za-zÀ-ɏ]")

# Polite words are searched this far from the keyword or the start, to bound the work.
_REACH_CHARS = 60
_EDGE = r"\s，,。.、；;：:！!？?…—~～"
_POINTER = (
    r"(?:(?:(?:下面|以下|下列|如下|上面|以上|上述|后面)(?:的|这|那)?|这|那|此)(?:一)?[段句篇首些个条行]?(?:的)?"
    r"(?:文字|内容|话|句子|文本|文案|段落|文章|短文|稿子|台词|诗|中文|英文)?|文字|文本|内容|文案)"
)
_POLITE = (
    r"请(?:问|您|你)?|麻烦(?:您|你)?|劳烦(?:您|你)?|[您你]?(?:能不能|可不可以|能否|可否|可以)(?:请)?(?:您|你)?|"
    r"[您你]能|能(?=帮)|帮(?:我|忙|个忙|助我)|(?:please|can you|could you|help me)\b\s*"
)
_REQUEST = (
    r"我(?:想|要|需要|希望)(?:要|听)?(?:你|您)?|想|需要|给(?:我|大家)|为(?:我|大家)|替我|用[^，。！？,!?]{0,12}?"
    r"(?:声音|女声|男声|童声|语气|语调|口吻|音色|普通话|中文|英文|英语)(?:来)?|"
    r"[为给](?:这个|这段|我的|一个)?(?:视频|短片|广告|影片|电影|纪录片|动画|课件)(?:做|加|配|写|生成)?(?:个|一段|上)?|"
    r"进行|生成|制作|做(?:个|一个|一段)?|来(?:个|一段)?|一段|一个|[把将对为给]"
)
_EDGES = re.compile(rf"[{_EDGE}]*")
_MARKS = re.compile(rf"[{_EDGE}“”\"「」『』‘’']*")
_LEAD_IN = re.compile(rf"(?:\A|[{_EDGE}])((?>{_POLITE}|{_REQUEST}|{_POINTER}|[{_EDGE}])++)\Z", re.IGNORECASE)
_LAST_WORDS = re.compile(r"(?>请你?|帮我|给我|麻烦你?|进行|的|please)++\s*\Z", re.IGNORECASE)
_OBJECT = re.compile(rf"\A(?>{_POLITE}|[{_EDGE}])*+[把将]", re.IGNORECASE)
_TARGET = re.compile(rf"\A(?>{_POLITE}|[{_EDGE}])*+[对为给]", re.IGNORECASE)
_PRODUCT = re.compile(rf"\A(?>{_POLITE}|[{_EDGE}])*+(?:我要|生成|制作|做)(?:一段|一个|个)?", re.IGNORECASE)
_FOLLOW_UP = re.compile(
    rf"\A(?>一[下遍次]|出来|给(?:我|大家)听|"
    rf"(?:{_POINTER}|音频|文件|播放|吧|吗|呢|好吗|可以吗|行吗)(?=[{_EDGE}吗吧]|\Z))++"
)
_THANKS = re.compile(
    rf"\A[{_EDGE}]*(?:谢谢|多谢|感谢|谢了|thanks|thank you|please)(?:你|您)?[{_EDGE}]*\Z", re.IGNORECASE
)


def speech_text(instruction: str) -> str | None:
    """The text of `instruction` to speak, never blank; None without a keyword.

    After a colon, one pair of quotes around all the rest is removed. A colon in a time or an address counts
    like any other. An apostrophe next to a Latin letter (don't) is not a quote.
    """
    keyword = _KEYWORD.search(instruction)
    if keyword is None:
        return None
    return (
        _after_colon(instruction, keyword.end())
        or _quoted(instruction)
        or _without_lead_in(instruction[: keyword.start()], keyword[0], instruction[keyword.end() :])
        or instruction.strip()
    )


def _after_colon(instruction: str, start: int) -> str:
    colon = _COLON.search(instruction, start)
    return _unwrapped(instruction[colon.end() :].strip()) if colon else ""


def _unwrapped(text: str) -> str:
    """`text` without the one pair of quotes around all of it."""
    last = len(text) - 1
    wrapped = any(pair == (0, last) for pair in _pairs(text))
    return text[1:-1].strip() if wrapped else text


def _quoted(text: str) -> str:
    """The text in the first pair of quotes that isn't blank; empty if there is none."""
    filled = ((begin, end) for begin, end in _pairs(text) if _VISIBLE.search(text, begin + 1, end))
    begin, end = min(filled, default=(0, 0))
    return text[begin + 1 : end].strip()


def _pairs(text: str) -> Iterator[tuple[int, int]]:
    """Yields the positions of each pair of quotes. Unpaired quotes are skipped."""
    unpaired: dict[str, list[int]] = {opening: [] for opening in _CLOSING}
    for found in islice(_QUOTE.finditer(text), QUOTES_MAX):
        at, quote = found.start(), found[0]
        opening = _OPENING.get(quote, "")
        if quote in "'‘’" and _latin_at(text, at - 1) and (quote not in opening or _latin_at(text, at + 1)):
            continue  # an apostrophe
        if opening and unpaired[opening]:
            yield unpaired[opening].pop(), at
        elif quote in _CLOSING:
            unpaired[quote].append(at)


def _latin_at(text: str, at: int) -> bool:
    return 0 <= at < len(text) and _LATIN.match(text[at]) is not None


def _without_lead_in(before: str, keyword: str, after: str) -> str:
    """The text on both sides of the keyword, without the words that only make the request."""
    before = _text_before(before, keyword)
    after = _text_after(keyword, after)
    if _EDGES.fullmatch(before):
        return "" if _MARKS.fullmatch(after) else after[_edges_chars(after) :].rstrip()
    if _EDGES.fullmatch(after) or (len(after) <= _REACH_CHARS and _THANKS.match(after)):
        return before.rstrip("，,、；;：: \t\r\n\u3000").rstrip()
    return before + after[_edges_chars(after) if _EDGES.fullmatch(before[-1]) else 0 :].rstrip()


def _edges_chars(text: str) -> int:
    """The number of punctuation marks and spaces at the start of `text`."""
    found = _EDGES.match(text)
    return found.end() if found else 0


def _text_before(before: str, keyword: str) -> str:
    """`before` without the request at its end (…，请帮我), or around it (请把…, 对…进行)."""
    head, tail = before[:-_REACH_CHARS], before[-_REACH_CHARS:]
    asked = _LEAD_IN.search(tail)
    if asked and not _EDGES.fullmatch(asked[1]):
        return (head + tail[: asked.start(1)]).strip()
    is_target = before.endswith("进行") or keyword in ("配音", "旁白")
    lead = before[:_REACH_CHARS]
    begin = _OBJECT.match(lead) or (is_target and _TARGET.match(lead))
    begin = begin or (before.endswith("的") and _PRODUCT.match(lead))
    text = before[begin.end() if begin else 0 :]
    return (text[:-_REACH_CHARS] + _LAST_WORDS.sub("", text[-_REACH_CHARS:])).strip()


def _text_after(keyword: str, after: str) -> str:
    """`after` without the rest of the request (…一下这段话吗？)."""
    if keyword.endswith("语音"):
        after = after.removeprefix("合成")
    follow_up = _FOLLOW_UP.match(after[:_REACH_CHARS])
    return after[follow_up.end() :] if follow_up else after
