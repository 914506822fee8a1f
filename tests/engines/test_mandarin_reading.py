"""Numbers and signs as a Mandarin voice says them, by kind. Where several readings are right, one is here."""

import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from demo import tiny_voices
from myna.engines.espeak.engine import EspeakConfig
from myna.engines.interface import EngineFailed, EngineLimits, Utterance
from myna.engines.jobs import Phonemes, PhonemesJob
from myna.engines.kokoro.engine import KokoroConfig
from myna.engines.kokoro.job import TextJob, TextPieces
from myna.engines.pool.pool import Pool
from myna.engines.registry import EngineConfig
from myna.engines.sherpa.engine import SherpaConfig
from myna.engines.text.reading import in_mandarin
from tests.engines.conftest import started

KINDS = {
    "dates": """
英超2023/24赛季 → 英超二零二三到二四赛季
2024年Q3 → 二零二四年Q三
05/01/2024 → 二零二四年五月一日
2024.05.01 → 二零二四年五月一日
12.25日 → 十二月二十五日
2023/24 → 二零二三到二四
5/6月 → 五、六月
1840—1842年 → 一八四零到一八四二年
公元前3世纪～公元2世纪 → 公元前三世纪到公元二世纪
5.1放假 → 五一放假
10·1黄金周 → 十一黄金周
5·12地震 → 五一二地震
911事件 → 九一一事件
1998年-2003年 → 一九九八年到二零零三年
2024-2025学年第1学期 → 二零二四到二零二五学年第一学期
16年高考 → 一六年高考
86年出生 → 八六年出生
08年奥运会 → 零八年奥运会
24年5月1日 → 二四年五月一日
618年建立 → 六一八年建立
公元前551年 → 公元前五百五十一年
已有2000年历史 → 已有两千年历史
距今1800多年 → 距今一千八百多年
1000年 → 一千年
贞观3年 → 贞观三年
80、90后 → 八零、九零后
1-2年级 → 一到二年级
5.1-5.7放假 → 五月一日到五月七日放假
05-01 → 五月一日
2020东京奥运会 → 二零二零东京奥运会
民国75年 → 民国七十五年
双11和618大促 → 双十一和六一八大促
1980s → 二十世纪八十年代
2024.08.14–08.20 → 二零二四年八月十四日到八月二十日
1881.9.25—1936.10.19 → 一八八一年九月二十五日到一九三六年十月十九日
（1881—1936） → （一八八一到一九三六年）
〔2021〕23号 → 〔二零二一〕二十三号
1985-1990 → 一九八五到一九九零
价格1500-2000元 → 价格一千五百到两千元
2024-11-05T08:30:00 → 二零二四年十一月五日 八点三十分零秒
等于2/4 → 等于四分之二
今天-5℃ → 今天负五摄氏度
5 月 1 日-5 日放假，2023 年 - 2025 年 → 五月 一日到五日放假，二零二三年到二零二五年
5 月 1 日 - 3 款新品，10 - 3 个 → 五月 一日 - 三款新品，十 - 三个
""",
    "times": """
10:00-21:00 → 十点到二十一点
9:05pm → 下午九点零五分
8:30 AM → 上午八点三十分
3pm → 下午三点
3分09秒34 → 三分零九秒三四
3-5pm → 下午三点到五点
AM 9:30～PM 5:00 → 上午九点三十分到下午五点
12点02分 → 十二点零二分
2时30分 → 两时三十分
23:59:59 → 二十三点五十九分五十九秒
周一-周五 → 周一到周五
2019年-今 → 二零一九年到今
每周2 → 每周二
营业时间:10:00-21:00 → 营业时间:十点到二十一点
营业时间：8:30 AM - 5:30 PM，周一 - 周五 → 营业时间：上午八点三十分到下午五点三十分，周一到周五
2h30min → 两小时三十分钟
""",
    "scores": """
112-98获胜 → 一百一十二比九十八获胜
4-3险胜 → 四比三险胜
她以6-4、7-5击败对手 → 她以六比四、七比五击败对手
21:15战胜对手 → 二十一比十五战胜对手
比例尺1:10000 → 比例尺一比一万
混合1:2:3 → 混合一比二比三
6-4/3-6/7-5险胜 → 六比四、三比六、七比五险胜
11:9、8:11 → 十一比九、八比十一
21:19、21:18战胜 → 二十一比十九、二十一比十八战胜
1:0.5 → 一比零点五
得分-3分 → 得分负三分
""",
    "formulas": """
10-3=7 → 十减三等于七
算10-3 → 算十减三
x-1>0 → x减一大于零
4×100米 → 四乘一百米
7x24 → 七乘二十四
3²+4²=5² → 三的平方加四的平方等于五的平方
x⁻¹ → x的负一次方
10⁻⁵ → 十的负五次方
a^2 → a的平方
√2≈1.414 → 根号二约等于一点四一四
10÷3≠3 → 十除以三不等于三
x>=10 → x大于等于十
a!=b → a不等于b
x∈R → x属于R
3±0.5 → 三正负零点五
y=2x+1 → y等于二x加一
1/2+1/3=5/6 → 二分之一加三分之一等于六分之五
CO₂ → CO二
π是3.14 → 派是三点一四
用C#写 → 用C sharp 写
T+1 → T加一
10+人 → 十加人
E=mc² → E等于mc的平方
Fe³⁺ → Fe三正
1.5e5 → 一点五乘以十的五次方
发生率<0.1% → 发生率小于百分之零点一
分数≥60分，>5且<9 → 分数大于等于六十分，大于五且小于九
12!=479001600 → 十二的阶乘等于四亿七千九百万一千六百
快门1/250s → 快门二百五十分之一秒
你+1了 → 你加一了
1+1=2对吗 → 一加一等于二对吗
x²-2x+1=0 → x的平方减二x加一等于零
-15-(-8)=-7 → 负十五减(负八)等于负七
3!=6 → 三的阶乘等于六
SO₄²⁻ → SO四二负
¹⁴C → 十四C
12×10⁹/L → 十二乘十的九次方每升
2H₂+O₂ → 二H二加O二
9.1×10⁻³¹kg → 九点一乘十的负三十一次方千克
3×10^8m/s → 三乘十的八次方米每秒
α≥0.05 → 阿尔法大于等于零点零五
AB⊥BC → AB垂直于BC
|a-b|≤3 → a减b的绝对值小于等于三
""",
    "money": """
$2.8T → 两万八千亿美元
A$99 → 九十九澳元
JP¥3,000 → 三千日元
50¢ → 五十美分
$5k → 五千美元
$100M → 一亿美元
$5-10 → 五到十美元
-$20 → 负二十美元
3 - 5 天，50 元～100 元，余额 -50 元 → 三到五天，五十元到一百元，余额 负五十元
100€ → 一百欧元
USD 20 → 二十美元
¥3.5万 → 三点五万元
30元/500ml → 三十元每五百毫升
199元/双，5元/个，60元/半小时，15元/堂食 → 一百九十九元每双，五元每个，六十元每半小时，十五元/堂食
5元/kg → 五元每千克
2300美元/盎司 → 两千三百美元每盎司
1,299.00元 → 一千二百九十九元
1.2×10⁵V/m → 一点二乘十的五次方伏每米
""",
    "units": """
12.5MB/s → 十二点五MB每秒
120/80mmHg → 一百二十、八十毫米汞柱
9.8m/s² → 九点八米每平方秒
2.5L/100km → 二点五升每一百公里
135g/L↓ → 一百三十五克每升下降
178cm/70kg → 一百七十八厘米、七十千克
5×10³～6×10³ → 五乘十的三次方到六乘十的三次方
3000r/min → 三千转每分钟
100元/m² → 一百元每平方米
220V → 两百二十伏
24H → 二十四小时
40–60°C → 四十到六十摄氏度
5 km-10 km，2小时-3小时 → 五到十公里，两小时到三小时
5'30" → 五分三十秒
39°54′ → 三十九度五十四分
10w+ → 十万加
8k-12k → 八k到十二k
-273.15℃ → 负两百七十三点一五摄氏度
1080P → 一零八零P
电流10A → 电流十安
零下-5℃ → 零下五摄氏度
时速60km/h → 时速六十公里
4.5★ → 四点五星
6.1mmol/L → 六点一毫摩尔每升
98.6°F → 九十八点六华氏度
9″98 → 九秒九八
65"电视 → 六十五英寸电视
220V/50Hz → 两百二十伏、五十赫兹
25mg×24片/盒 → 二十五毫克乘二十四片每盒
0.5g*12片 → 零点五克乘十二片
2个奖项，个人/团体/集体 → 两个奖项，个人/团体/集体
""",
    "shares": """
+15.2% → 正百分之十五点二
±2% → 正负百分之二
5%-10% → 百分之五到百分之十
3/4 → 四分之三
3又1/2 → 三又二分之一
24/7 → 二十四七
100% → 百分之百
3‰ → 千分之三
第1/3页 → 第一页，共三页
↓12% → 下降百分之十二
1/3~1/2 → 三分之一到二分之一
4/4拍 → 四分之四拍
""",
    "codes": """
021-12345678 → 零二幺幺二三四五六七八
010-8888 6666 → 零幺零八八八八六六六六
+86-10-12345678 → 加八六幺零幺二三四五六七八
6222 0211 2233 4455 → 六二二二零二幺幺二二三三四四五五
会议号123-456-789 → 会议号幺二三四五六七八九
ISBN 978-7-111-12345-6 → ISBN 九七八七幺幺幺幺二三四五六
GB/T 7714-2015 → GB/T 七七一四杠二零一五
京A12345 → 京A幺二三四五
1203房间 → 幺二零三房间
107国道 → 幺零七国道
房号1-2-301 → 房号一杠二杠三零一
航班CA1831 → 航班CA幺八三幺
404错误 → 四零四错误
转801，拨打 10010 人工 → 转八零幺，拨打 幺零零幺零 人工
邮编100086 → 邮编幺零零零八六
007号 → 零零七号
MU5101 → MU五幺零幺
ISO 9001:2015 → ISO 九零零一冒号二零一五
右转500m，右转 500 米 → 右转五百米，右转 五百米
打110或120 → 打幺幺零或幺二零
110来了，找110，救护车120到了，找120平的房子 → 幺幺零来了，找幺幺零，救护车幺二零到了，找一百二十平的房子
心率120 → 心率一百二十
02-2720-8889转1234 → 零二二七二零八八八九转幺二三四
21层2106 → 二十一层二幺零六
10.0.0.1 → 一零点零点零点一
版本1.2.3 → 版本一点二点三
邮箱abc123@qq.com请查收 → 邮箱 abc 一 二 三 艾特 qq 点 com 请查收
网址https://a.com/b?id=1吧 → 网址 a 点 com 斜杠 b 问号 id 等于 一 吧
5号楼1202 → 五号楼幺二零二
3#楼3门201 → 三号楼三门二零幺
131号3-1205 → 一百三十一号三杠一二零五
2单元1501 → 二单元幺五零幺
错误码0x8007 → 错误码零x八零零七
""",
    "names": """
波音747 → 波音七四七
空客A380 → 空客A三八零
歼-10C → 歼十C
MH370 → MH三七零
i7-13700K → i七杠一三七零零K
RTX 4090 → RTX 四零九零
Mate60 → Mate六十
B2B → B to B
AQI 156 → AQI 一百五十六
H.265 → H点二六五
第ⅩⅡ对 → 第十二对
5v5 → 五v五
No.5 → number 五
老师说I have 3 apples，对吗 → 老师说I have three apples，对吗
我看了3 days，是The 2nd one。 → 我看了三 days，是The second one。
打开a.yaml和src/main/user_id.py → 打开a点yaml和src斜杠main斜杠user下划线id点py
删除/tmp和Docs/README.md → 删除斜杠tmp和Docs斜杠README点md
iOS/Android/Windows、男/Female和XS/S/M/L码 → iOS/Android/Windows、男/Female和XS/S/M/L码
第VII集团军 → 第七集团军
伊丽莎白II世不是X世代 → 伊丽莎白二世不是X世代
II期、Ⅱ型 → 二期、二型
C++17 → C 加加 十七
PM2.5 → PM二点五
GPT-4 → GPT四
波音737-800 → 波音七三七杠八百
路易XIV和亨利VIII → 路易十四和亨利八世
碳-14 → 碳十四
教练排出4-3-3阵型 → 教练排出四三三阵型
见图3-1 → 见图三杠一
B- → B减
N95口罩 → N九五口罩
66666 → 六六六六六
""",
    "two": """
温度是-3 → 温度是负三
金额1,234,567元 → 金额一百二十三万四千五百六十七元
2位客人 → 两位客人
2楼2号 → 二楼二号
2年 → 两年
2手车 → 二手车
2单元 → 二单元
3室2厅 → 三室两厅
2月2日 → 二月二日
2比1 → 二比一
2到3个 → 二到三个
2万5 → 两万五
1米75 → 一米七五
3块5 → 三块五
2200元 → 两千二百元
12306人 → 一万二千三百零六人
2分02秒 → 两分零二秒
2瓣蒜 → 两瓣蒜
他著，買2隻貓 → 他著，买两只猫
2、3个 → 两、三个
""",
}


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_and_signs_are_said_as_people_say_them(kind: str) -> None:
    examples = [line.split(" → ") for line in KINDS[kind].strip().split("\n")]
    assert [f"{written} → {in_mandarin(written)}" for written, _ in examples] == [
        f"{written} → {said}" for written, said in examples
    ]


FLOODS = (
    "1/|1-|1:2 |A1|a.a.|1,111|@a.|1个|1年|1%|$1|1²|<a|²|比分1|1元/|1|"
    "时速1|号1|以1-|第I|0|a|A.|1m/s|^|&|$|A-|算1|1 2 |123 456 "
)


@pytest.mark.parametrize("flood", FLOODS.split("|"))
def test_a_long_text_of_one_kind_is_read_in_bounded_time(flood: str) -> None:
    """10,000 characters take some 60 ms of CPU time; one pattern of quadratic time takes 700 ms and more."""
    text = "好" + (flood * 10000)[:10000]
    begin = time.process_time()
    in_mandarin(text)
    assert time.process_time() - begin < 0.5


LIMITS = EngineLimits(processes=1, queue_max=4, job_deadline_s=60)
SIGNS = [*"abXY079 .,;:!?-'\"()[]<&%+~\n\t你好年，éЖ…—\u200b😀", "&lt;"]
DEADLINE_S = 60.0
Made = Callable[[str, str], Awaitable[object]]
"""What is made of a text in a language."""


def pairs(count: int) -> list[tuple[str, str]]:
    """Texts with their languages: one that a library may remember, and one that follows it."""
    rng = random.Random(1)
    texts = ["My digit is in box No. 7", "welcome to our store"]
    for _ in range(count):
        text = "".join(rng.choices(SIGNS, k=rng.randint(1, 12)))
        texts += [f"{text}. {rng.choice(SIGNS)}", f"{text} and so on"]
    return [(text, rng.choice(["en-us", "cmn", "fr"])) for text in texts]


@asynccontextmanager
async def sound_of(config: EngineConfig, folder: Path) -> AsyncIterator[Made]:
    """The seconds of the sound, or the error. espeak-ng's samples are random within some milliseconds."""
    async with started(config.build(LIMITS, Path())) as engine:

        async def made(text: str, language: str) -> object:
            voices = [voice for voice in engine.voices if voice.language[:2] == language[:2]]
            utterance = Utterance(text, (voices or engine.voices)[0].voice_id, 1.0)
            try:
                spoken = await engine.speak(utterance, folder / "spoken.mp3", DEADLINE_S)
            except EngineFailed as failure:
                return str(failure)
            return pytest.approx(spoken.seconds, abs=0.06)

        yield made


@asynccontextmanager
async def result_of(
    module: str, result: type[msgspec.Struct], job: Callable[[str, str], msgspec.Struct]
) -> AsyncIterator[Made]:
    async with started(Pool(module, result, LIMITS)) as pool:
        yield lambda text, language: pool.run(job(text, language), DEADLINE_S)


def kokoro(folder: Path) -> KokoroConfig:
    return KokoroConfig(str(tiny_voices.neural(folder / "model", ["af_heart", "zf_xiaobei"])))


def text_job(text: str, language: str) -> TextJob:
    return TextJob(text, "zh-CN" if language == "cmn" else "en-US")


@pytest.mark.parametrize(
    ("maker", "count"),
    [
        (lambda folder: sound_of(EspeakConfig(), folder), 60),
        (lambda folder: sound_of(kokoro(folder), folder), 30),
        (lambda folder: sound_of(SherpaConfig(str(tiny_voices.vits(folder / "model"))), folder), 30),
        (lambda _: result_of("myna.engines.espeak.phonemizer", Phonemes, PhonemesJob), 200),
        (lambda _: result_of("myna.engines.kokoro.text.pieces", TextPieces, text_job), 100),
    ],
    ids=["espeak", "kokoro", "sherpa", "phonemes", "pieces"],
)
async def test_a_text_gives_the_same_after_any_other(
    maker: Callable[[Path], AbstractAsyncContextManager[Made]], count: int, tmp_path: Path
) -> None:
    async with maker(tmp_path) as made:
        texts = pairs(count)
        in_order = [await made(*text) for text in texts]
        backwards = [await made(*text) for text in reversed(texts)]
        for text, forwards, again in zip(texts, in_order, reversed(backwards), strict=True):
            assert forwards == again, text
