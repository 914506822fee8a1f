"""Numbers as words. Where several readings are right, the table has the commonest."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from myna.engines.text.mandarin.numerals import cardinal, number, ordinal
from myna.engines.text.reading import in_english, spoken_form
from myna.engines.text.sentences import sentences
from myna.engines.text.signs import plain, speakable

TABLE = [
    # Years, dates, times.
    ("2024年我们去了北京", "二零二四年我们去了北京"),
    ("1990年代的音乐", "一九九零年代的音乐"),
    ("80后、90后和00后", "八零后、九零后和零零后"),
    ("有5000年历史", "有五千年历史"),
    ("2023-2024年的计划", "二零二三到二零二四年的计划"),
    ("2024奥运会", "二零二四奥运会"),
    ("2024-05-01出发", "二零二四年五月一日出发"),
    ("2024/5/1出发", "二零二四年五月一日出发"),
    ("2024.5.1出发", "二零二四年五月一日出发"),
    ("5月1日放假", "五月一日放假"),
    ("2月2日下雪", "二月二日下雪"),
    ("2024年1-3月", "二零二四年一到三月"),
    ("5月1日-5月3日放假", "五月一日到五月三日放假"),
    ("现在8:30", "现在八点三十分"),  # 八点半 is right too
    ("下午3:05出发", "下午三点零五分出发"),
    ("2:00开会", "两点开会"),
    ("9:00-18:00营业", "九点到十八点营业"),
    ("用时12:30:45吧", "用时十二点三十分四十五秒吧"),
    ("8：30开会", "八点三十分开会"),
    ("下午2点集合", "下午两点集合"),
    # Percents, decimals, signs, temperatures.
    ("增长了10%", "增长了百分之十"),
    ("100%可靠", "百分之百可靠"),
    ("下降-10%", "下降负百分之十"),
    ("占3-5%左右", "占百分之三到百分之五左右"),
    ("浓度5‰", "浓度千分之五"),
    ("圆周率是3.14", "圆周率是三点一四"),
    ("只有0.5", "只有零点五"),
    ("涨了12.25个百分点", "涨了十二点二五个百分点"),
    ("温度是-3", "温度是负三"),
    ("误差±5", "误差正负五"),
    ("气温-5℃", "气温负五摄氏度"),  # 零下五度 in a forecast
    ("气温-5~3℃", "气温负五到三摄氏度"),
    ("分数≥60分，>5且<9", "分数大于等于六十分，大于五且小于九"),
    ("1+1=2对吗", "一加一等于二对吗"),
    ("3×5=15对吗", "三乘五等于十五对吗"),
    # Money and large numbers.
    ("价格￥12.5", "价格十二点五元"),
    ("价格¥12.5元", "价格十二点五元"),
    ("售价$100", "售价一百美元"),
    ("赚了$1.5亿", "赚了一点五亿美元"),
    ("大约¥100-200", "大约一百到两百元"),
    ("金额1,234,567元", "金额一百二十三万四千五百六十七元"),
    ("共12,345,678.90元", "共一千二百三十四万五千六百七十八点九零元"),
    ("共100万元", "共一百万元"),
    ("票价100元/人", "票价一百元每人"),
    ("房价5000元/㎡", "房价五千元每平方米"),
    ("12345678人参加", "一千二百三十四万五千六百七十八人参加"),
    ("超过100000000", "超过一亿"),
    # Read digit by digit: 1 is 幺.
    ("电话13812345678", "电话幺三八幺二三四五六七八"),
    ("手机138-1234-5678", "手机幺三八幺二三四五六七八"),
    ("手机+86 13812345678", "手机加八六幺三八幺二三四五六七八"),
    ("电话010-62345678", "电话零幺零六二三四五六七八"),
    ("热线400-800-1234", "热线四零零八零零幺二三四"),
    ("拨打12306", "拨打幺二三零六"),
    ("共12306人", "共一万二千三百零六人"),
    ("请打110报警", "请打幺幺零报警"),
    ("订单号20240501123456", "订单号二零二四零五零幺幺二三四五六"),
    ("验证码123456", "验证码幺二三四五六"),
    ("房间号302", "房间号三零二"),
    ("住在101室", "住在幺零幺室"),  # 一零一 in the south
    ("3-2-501室", "三杠二杠五零一室"),
    ("坐302路公交", "坐三零二路公交"),
    ("编号007", "编号零零七"),
    # Ratios, scores, fractions, ranges, ordinals, counts.
    ("比例3:2", "比例三比二"),
    ("画面16:9", "画面十六比九"),
    ("比分3-2", "比分三比二"),
    ("21:15战胜对手", "二十一比十五战胜对手"),
    ("他吃了1/2", "他吃了二分之一"),
    ("血压120/80", "血压一百二十、八十"),
    ("需要3-5天", "需要三到五天"),
    ("需要3~5天", "需要三到五天"),
    ("第3名", "第三名"),
    ("第2名", "第二名"),
    ("第12-15页", "第十二到十五页"),
    ("等24小时", "等二十四小时"),
    ("快1.5倍", "快一点五倍"),
    ("2个苹果", "两个苹果"),
    ("去过2次", "去过两次"),
    ("身高110米", "身高一百一十米"),
    ("走了10000年", "走了一万年"),
    # Units.
    ("面积100㎡", "面积一百平方米"),
    ("距离5km", "距离五公里"),
    ("时速60km/h", "时速六十公里"),
    ("限速60km/h", "限速六十公里每小时"),
    ("5000mAh电池", "五千毫安时电池"),
    ("重3.5kg", "重三点五千克"),
    ("北纬39°54′", "北纬三十九度五十四分"),
    # Names with a number in them: one or two digits as a number, more of them one by one, 1 is 一.
    ("版本v2.0.1", "版本v二点零点一"),
    ("版本1.2.3", "版本一点二点三"),
    ("GPT-4很强", "GPT四很强"),
    ("GPT-4o很强", "GPT四o很强"),
    ("GPT-3.5很强", "GPT三点五很强"),
    ("Windows 11系统", "Windows 十一系统"),
    ("iPhone 15 Pro手机", "iPhone 十五 Pro手机"),
    ("COVID-19疫情", "COVID十九疫情"),
    ("RTX 4090显卡", "RTX 四零九零显卡"),
    ("歼-20飞机", "歼二十飞机"),
    ("B2B平台", "B to B平台"),
    ("地址是192.168.1.1", "地址是一九二点一六八点一点一"),  # 幺九二点… among engineers
    ("双11和618大促", "双十一和六一八大促"),
    ("618元的鞋", "六百一十八元的鞋"),
    ("9·11事件", "九一一事件"),
    ("邮箱abc123@qq.com请查收", "邮箱 abc 一 二 三 艾特 qq 点 com 请查收"),
    ("网址https://a.com/b?id=12", "网址 a 点 com 斜杠 b 问号 id 等于 一 二 "),
    # Unchanged.
    ("😀你好3个😀", "😀你好三个😀"),
    ('他说"买3个"\\走', '他说"买三个"\\走'),
    ("第一行  3个\n\n 第二行\t4个 ", "第一行  三个\n\n 第二行\t四个 "),
    ("全角１２３个", "全角一百二十三个"),
    ("1、苹果。2、梨", "一、苹果。二、梨"),
    ("坏\ud800字符\x003个", "坏\ud800字符\x00三个"),
]


@pytest.mark.parametrize(("written", "said"), TABLE, ids=[repr(written) for written, _ in TABLE])
def test_numbers_are_written_as_spoken_words(written: str, said: str) -> None:
    assert spoken_form(written) == said


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
        ("See No. 5 and fig. 2. No. They left.", ["See No. 5 and fig. 2. ", "No. ", "They left."]),
        ("Well... maybe. Sure?! OK!", ["Well... maybe. ", "Sure?! ", "OK!"]),
        ("1. First. 2. Second.", ["1. First. ", "2. Second."]),
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
