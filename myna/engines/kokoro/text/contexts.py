"""Characters that are read by what is around them, where no dictionary can have all words: verbs with their
objects (弹 + an instrument), counters after numbers, particles, and single characters that are words."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

import regex

_NUMBER: Final = "一二三四五六七八九十百千万两几半多"
_PARTS: Final = {
    "NUMBER": _NUMBER,
    "EACH": _NUMBER + "这那哪每整各某",
    "PERSON": "[我你他她它您咱谁家]|我们|你们|他们|她们|大家|孩子|同学|学生",
    "COUNTING": "[一二三四五六七八九十百千万亿两几半每这那哪第零〇0-9]",
    "SPEAKER": "[我你他她它您咱谁]|[我你他她咱]们|大家|自己",
    "MUST": "[都也还就可总又必非才只]|一定|[今明]天|现在|马上",
    "RETURNED": "[书钱款债账清给回本完掉这那]|人情|贷款|房贷|车贷|信用卡|[一几]本|东西|图书",
}
"""What the patterns below name in capitals."""

_BY_CHARACTERS: Final = r"""
挨 ai2 挨(?=[打骂饿批揍冻宰训罚欺淋刀]|了?[一几两][顿刀下]|了[打骂批揍])
背 bei1 (?<![后手脚靠脊驼])背(?=[着起上了]?(?:孩子|书包|[双背]?肩?包|行李|枪|黑锅|债|娃|吉他|柴|竹篓|篓))
剥 bao1 剥(?=[了着好去掉]?(?:皮|壳|花生|鸡?蛋|橘|桔|大?蒜|香蕉|豆|虾|栗|瓜子|洋?葱|毛豆|柚|糖))
调 tiao2 (?<![回音色声下上])调(?=[糊汁料馅]|[至到](?:最[大小高低]|[大中小微]火|适))
干 gan1 (?<=[擦挤沥晒烘晾吹烤风收捏拧榨抹控煎煮])干(?![什嘛活])|
    (?<![能实骨主树])干(?=[豆果货贝虾枣湿]|桂花|木耳|香菇|海带|辣椒)|
    干(?=爹|妈|娘|姐姐|妹妹|弟弟|哥哥|儿子|女儿|亲)
冲 chong4 (?<=[很太真挺味])冲(?![刺动锋洗突上进出下向击撞过走到去浪])|冲(?=着|[我他她你][来说喊笑发嚷])
弹 tan2 弹(?=[了着起过会一首曲]*(?:吉他|钢?琴|[古竖柳扬风电]?[琴筝]|古筝|琵琶|贝斯|三弦|尤克里里|冬不拉|
    曲|唱|奏|棉花))
弹 tan2 (?<![子炸导炮氢核飞流枪榴催])弹(?=[指跳起回走开出入射窗]|了?一[首曲下])(?!起?[药头片])
当 dang4 [把拿将][^以了\W]{1,6}当(?![时年天初前场中面地局众选])|
    (?<=[上])当(?=了|$)|当(?=作|成了?|真的?(?:吗|了)|天晚上|[晚夜]就)
倒 dao3 (?<=[推病晕昏摔打跌跪扑累吓卧绊撞绞滑碰醉刮吹放压击拉撂问难辩骂])倒|倒(?=[闭霉楣卖塌台班戈]|
    [在下]了?(?!水|茶|酒))
倒 dao3 (?<=[车树墙楼柱杆架])倒(?=了?$)
倒 dao4 倒(?=在[^，。]{0,3}(?:[碗锅杯盆]|盘(?!山))|
    [了着上满杯点]*(?:水|茶|酒|油|垃圾|咖啡|牛奶|杯|进|入|出来|掉))
得 de2 (?<![觉显懂值记晓舍使认变获取])得(?=劲儿?(?:$|[了多的很]))
得 dei3 (?<=[我你他她您们谁就还都也总非可又只才])得(?=[去来走买交给找等吃喝小注加想看做学先再多早赶抓让用
    住花带上下回打自提问说写考靠干抱道请换吵睡休工听记])(?![上下]来|想|看见|用处|到|出|了)
得 dei3 ^得(?=交|小心|加|注意|马上|赶紧|尽快|先|去|等|想办法|看情况|抓紧)
地 de5 (?:([\u4e00-\u9fff])\1|[然兴情真停速快意断力]|[小开耐细专热衷诚甘放满]心)地(?=$|
    [^方区点图址带铁理面位球震上下里勤产板平处势形貌域主道皮])
行 hang2 (?<=第[NUMBER]|[EACH末首])(?<!(?<![第十百])五|一言一)行(?![人动为程走业驶进事李礼政军书星使车其]|
    (?<!第[NUMBER]{1,3}行)[NUMBER]{1,3}[余多]?[人位名])
划 hua2 (?<![计规策谋筹区刻比勾企擘])划(?=[破伤桨船水拳算痕]|火柴|[得不]来|了?一?[道条]|开(?!发)|掉)
和 huo4 和(?=稀泥|药)
和 huo2 (?<=[先再会在去来正^])和(?=[好了着]?(?:面(?![包条粉对前临积])|泥|灰|水泥))|
    ^和(?=面(?:$|时|的时候|要))|和(?=[了好]?一?[团块盆]面)|和(?=面包(?:饺|包)子)
会 hui4 会计(?=算|划得|较|时)
教 jiao1 (?<![宗佛道任执请指调管受助胎身主基回家信传])教(?=[会了过着]*(?:PERSON|人(?!员|士)|英语|数学|
    语文|[汉中法日]语|音乐|画画?|唱|跳|打|做|写|弹|游泳|怎么|书|课$|舞))
教 jiao4 (?<=受)教(?!书)
行 hang2 在行$
觉 jiao4 (?<=[睡补][了个着过一大懒好]{0,3})觉(?![得察悟醒])|一觉(?=睡|醒|到|$)
结 jie1 结(?=满)|(?<=[树枝藤花株])结(?=[了出]*[^，。结]{0,3}[果籽瓜桃枣])
系 ji4 (?<![关联体中派维直嫡干外哲语])系(?=[上好紧着了住在]*(?:一[条根个])?(?:红?[丝鞋领腰皮]带|扣子|
    围[裙巾]|安全带|红领巾|绳|蝴蝶结))|(?<![关联体中派维])系(?=[上好紧](?:$|[了吧的]))
切 qie1 (?<![一密亲迫关心恳热深急确真悲贴殷反凄痛])切(?=$|[好末段花滚薄厚]|
    [了着好成碎]*(?:[菜肉片丝丁葱姜蒜瓜块]|西瓜|蛋糕|土豆|
    萝卜|黄瓜|洋葱|水果|面包|番茄|豆腐|苹果)|[开断碎掉换割削除]|线(?!索)|下来|成)
盛 cheng2 (?<![丰茂旺强昌全兴])盛(?=[了着好上满]*(?:[饭汤水粥菜酒]|[在至入到]?[大小]?[碗盆盘杯锅里]|
    [一几两][碗勺盘])|满|
    出来)
扎 za1 扎(?=[了着起好上个]*(?:[小麻马]?辫|马尾|头发|[腰皮]带|蝴蝶结|丸子头|花束))
扇 shan1 扇(?=[了着过他她你我一几个]*(?:扇子|[大]?耳光|巴掌)|风|凉|动)
数 shu3 (?<=[就要班里中])数(?=PERSON)|
    (?<![倍多少人次岁分函参指点总大半])数(?=[着了过一]*(?:星星|钱|数(?![学据字])|羊|票|人[头数]|清)|
    [得不][着清完过]|到[一二三十百])
量 liang2 (?<![大数质重产流能])量(?=出(?!现|口|售|来自))|
    (?<![大数质重容流产热能力含])量(?=[了着过一个]*(?:身高|体[重温]|血压|尺寸|[长宽高厚]度|腰围|
    三围|体温|衣|量|视力|脚))
卷 juan4 (?<=第[NUMBER]{1,3}|[一二三两几上下全首末]大?)卷(?![起入走曲缩帘])
落 la4 落(?=在了?(?:家|车|办公|教室|学校|出租|宾馆|酒店|单位|公司|地铁|飞机|桌))|落下(?=了?(?:东西|钱包|
    手机|功?课|作业))
中 zhong4 (?<=[打击射命看选猜相切投抽押踩刺]|(?<![语发留宣名方寓序])言|(?<![高中大思参备])考|
    (?<![小传学解演])说)中(?![国间心学央文华午年期部])
中 zhong4 (?<![其之手当集])中(?=了?过?(?:[大头]?奖|彩|毒|弹|枪|计|招|邪|暑|肯|举|标|圈套|状元|五百万|
    风[了病]?$))
重 chong2 (?<![体比超净毛载负沉严繁慎贵尊注看举稳厚侧偏])重(?=[新做写启置试装组建返演播来复申温塑名样振拾
    开审印现排录抄读唱构订设修整获聚登燃铺提映版生拍编译连蹈叠逢围游])(?!点|要|生命|开发)
重 chong2 (?<=[一二三四五六七八九十双]|(?<!不)多)重(?![点要大量病伤任型力担视])
只 zhi1 (?<=[EACH])只(?![有要是能好会想见顾怕知用可需准剩为在差不吃给说看做带限收卖])
为 wei2 (?:任命|推举|命名|改名|选|拜|聘|封|认|娶|尊|奉|称|视|评|化|以|引|传|收|立)[^以了\W]{1,6}为(?!了|
    什么|何)
为 wei2 (?<!己)为人(?=正直|师|处世|善良|厚道|低调|谦|父|母|热情|老实|真诚|和善|诚实|忠厚|$)
为 wei2 (?<=[颇尤极甚较])为|(?<=无)为(?![了何什])
了 liao3 了(?=[却断]|然|如指|不[起得])|(?<=^[明终末未]|[一简]目?明)了$|^了[事得]$
应 ying4 应(?=[^届该当允许有]{1,6}(?:邀请|要求|请求|之邀|之约))
着 zhao2 着(?=了?(?:凉|魔|迷|急|慌)|了火)|
    (?<=[找睡够用见摸管犯猜碰挨数逮得不][不得])着(?!急)|(?<=[睡猜])着(?=了|$)|(?<=点|打|[火灯柴]|房子?)着(?=了火?$|
    火)
着 zhao1 (?<=[这那几两高妙绝失一])着(?=棋|妙|险|$)
着 zhuo2 (?<=[穿衣])着(?=打扮|得体|讲究|朴素|时尚|整[洁齐]|随意)|(?<=不)着(?=痕迹|一字|一墨)
转 zhuan4 转(?=了?[NUMBER好]{1,3}圈)|
    [绕围][^为成]{1,6}转(?=$|[了着动圈])|(?<=[地月星]球|轮子?|飞轮|陀螺)转(?![移变化身让播为到])
种 zhong4 (?<=[我你他她们家爷奶爸妈弟妹哥姐己])种(?=的)|
    (?<![EACH品物此])种(?=[了着满上下过些点一]*(?:[二两三几数十百]*[棵株亩]|
    [二两三几数十百]种|下[去了]|[在到进](?![类族子])|不[活下]|得|满|树|花(?![样色])|菜|
    地(?!方)|田|草|[大黄]?豆|[冬西黄]?瓜|粮|[水小]?[稻麦]|庄稼|玉米|果树|棉花|牙|痘|葡萄|土豆|萝卜|茶|药))
打 da2 (?<=[一两三几半])打(?=鸡蛋|铅笔|[袜毛]|啤酒|纸)
幢 zhuang4 (?<=[EACH])幢(?!幢)
宿 xiu3 (?<=[住了整][一两三几])宿|(?<=^一|[半整])宿(?!舍)
炸 zha2 (?<![爆轰])炸(?=[了着好]?(?:鸡|薯|鱼|虾|肉|丸|糕|油[条饼]|酱|豆|茄|串|排[骨条]?|春卷|土豆|年糕|
    花生|洋葱)|[得至到](?:金黄|酥))
拧 ning3 拧(?=[了着下]*(?:螺|瓶|开|紧|盖|松|水龙头|发条|灯泡))
撒 sa3 撒(?=[了着上点些一把层在]*(?:盐|种|花|胡椒|糖|葱|粉|面|料|播|药|香菜|芝麻)|了一地)
折 she2 (?<=[腿枝绳棍笔杆手臂]|绳子|棍子|扁担|胳膊)折(?=了|$)
长 chang2 (?<=[很太多不更最这么那加延特擅漫身全较够周])长(?=[了得着]|$)|长头发(?!$)
长 zhang3 越长(?=越)|(?<=[能会可])长(?=[到出])|(?<![很太多最加延特擅漫身全较够波周时年专超冗])长(?=了一|
    [了着出得]*(?:[个胖满]|痘|
    毛(?![绒象猫狗兔衣])|胡子|牙|皱纹|白发|叶|草|虫了|霉|肉|斑|见识|记性|心眼|本事|势|辈|蘑菇|翅膀|痣|疮|
    冻疮)|[大高出胖满]|不[高大胖]|在[^于]|成(?!都)|相)
看 kan1 看(?=孩子(?:的人)?$|大?门|店(?!家)|摊|仓库|鱼塘|菜园|护|守|押|管)(?!门道|守旧|店铺)
尽 jin4 (?<=[用耗历享费受想散燃])尽
涨 zhang4 (?<=[脑头肚][袋子皮]?[发]?|泡得?|豆子)涨
涨 zhang4 涨(?=得(?:满脸)?[通发]?[红紫]|红)
假 jia4 (?<=[请放休][了过完好个]{0,2}(?:[一两三四五几半\d]*[天个周]?)[年长病事婚产短小]?)假
    (?![装冒扮话如设条若])
都 du1 都(?=市里)|^都(?=市)
血 xie3 (?<=[流出]了[一点些很多]{1,2}|一[口滴摊滩])血(?![压液管])
蒙 meng1 蒙(?=[对中]了|人(?!古)|事)|(?<=[瞎打吓砸全被])蒙(?=了|$)
晕 yun4 晕(?=[车船机血针])
空 kong4 空(?=着(?![双两]?手|肚)|[了]?出来|一[行格]|格|档)|(?<=[没有抽得趁填])空(?![气间调军中前想虚])
闷 men1 (?<!闷)闷(?=不|头|声|得慌|在|热|坏)
抹 ma1 抹(?=[了着]?(?:桌|脸)|布)
圈 juan1 圈(?=起来)|(?<![猪羊牛马鸡])圈(?=在[家笼栏圈里])
饮 yin4 饮(?=马|牲口|牛)
还 huan2 还(?=[了过清给]{1,2}(?:书|钱|款|债|账|贷|房贷|人情|[我你他她它])|
    (?:车|伞|贷|债|书|本金|本息|愿|俗|礼)(?![有会能可在的]))
处 chu3 (?<![到各随四用好坏短长])处(?=得(?:不|很|挺|来|好|还|怎|融)|对象|朋友|男友|女友)
校 jiao4 (?<=[在去再要请来员^责真细])校(?=对(?![面老门外照]))
石 dan4 (?<=[NUMBER])石(?=[米粮谷粟麦豆])
燕 yan1 (?<=[封伐攻灭破]于?)燕(?=$|国|地)
没 mo4 (?<=[淹沉埋隐吞出湮泯])没|没(?=顶|收(?!到|过|拾|入)|落|入|齿)
"""
"""A character, its reading, and the pattern in which it has it; the last one in what matches counts. A line
that begins with spaces continues the one before."""

_BY_WORDS: Final = r"""
得 de2 ^-|^(?:SPEAKER)-$|^(?:SPEAKER|MUST)-[了过到]$
得 dei3 ^(?:SPEAKER|MUST)-
得 de5 -
地 de5 ..-.
地 di4 -
只 zhi1 COUNTING-
只 zhi3 -
行 hang2 COUNTING-
行 xing2 -
为 wei2 [作成称定视变分化换改誉评选任列转]-|-$
为 wei4 -
了 liao3 .[不得]-
了 le5 -
还 huan2 ^(?:[要没去来得该再]|已经|没有|尽?快|按时|必须|一定|记得)-(?:RETURNED)|-(?![这那])(?:RETURNED)
还 hai2 -
着 zhao2 (?:^|[不得])-
着 zhe5 -
重 chong2 -[来看说走发读学开跑排选]$
重 zhong4 -
教 jiao1 -
"""
"""A character that is a word, its reading, and the pattern of the words before and after it in which it has
it, with a hyphen in its place; the first one counts."""
_GROWING: Final = ("得", "着", "出", "大", "高", "胖", "满", "在")
_CHILDREN: Final = "女婴幼孤胎健宠生娃男"
"""儿 is a word after these, not the ending of erhua."""
_AFTER_ERHUA: Final = "的了吗呢吧"


def _compiled(rows: str) -> list[tuple[str, str, "regex.Pattern[str]"]]:
    parts = (row.split() for row in re.sub("\n +", "", rows).strip().split("\n"))
    return [
        (character, reading, regex.compile(re.sub("[A-Z]{3,}", lambda name: _PARTS[name[0]], pattern)))
        for character, reading, pattern in parts
    ]


_COUNTING: Final = regex.compile(_PARTS["COUNTING"])
_CHARACTERS: Final = _compiled(_BY_CHARACTERS)
_WORDS: Final = _compiled(_BY_WORDS)


def readings_in(text: str) -> Iterator[tuple[int, str]]:
    """The places of characters whose neighbours decide their reading, and the reading."""
    characters = set(text)
    for character, reading, pattern in _CHARACTERS:
        if character in characters:
            for found in pattern.finditer(text):
                yield found.start() + found[0].rindex(character), reading


def reading_of(words: Sequence[str], at: int, pinyin: tuple[str, ...]) -> tuple[str, ...]:
    """The reading of the word at `at`: where its neighbours decide by them, else `pinyin`."""
    word = words[at]
    after = words[at + 1] if at + 1 < len(words) else ""
    around = f"{words[at - 1] if at else ''}-{after}"
    for character, reading, pattern in _WORDS:
        if character == word and pattern.search(around):
            return (reading,)
    if word.endswith("长") and after.startswith(_GROWING):
        return (*pinyin[:-1], "zhang3")
    return pinyin


def reading_within(word: str, at: int) -> str | None:
    """The reading of a character within a word that is in no dictionary, where its neighbours decide."""
    if not at:
        return None
    character, before, after = word[at], word[at - 1], word[at + 1 :]
    if character == "得":
        return "de5"
    if character == "了" and before in "得不":
        return "liao3"
    if character == "行" and not after and _COUNTING.fullmatch(before):
        return "hang2"
    if character == "儿" and before not in _CHILDREN and (not after or after in _AFTER_ERHUA):
        return "er5"
    return None
