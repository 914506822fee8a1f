"""The sentences that the voices speak: 60 in Mandarin, 30 in English, 30 in both, as users send them.

A sentence with digits or signs also has the words in which a person reads it. They are written by hand, so
that the program under test is not its own reference.
"""

from typing import NamedTuple

EVERYDAY, POLYPHONES, NUMBERS = "everyday", "polyphones", "numbers"
QUESTIONS, LONG, ENGLISH, MIXED = "questions", "long", "English", "mixed"
GROUPS = (EVERYDAY, POLYPHONES, NUMBERS, QUESTIONS, LONG, ENGLISH, MIXED)
CHINESE = (EVERYDAY, POLYPHONES, NUMBERS, QUESTIONS, LONG)
"""The groups without English."""


class Sentence(NamedTuple):
    """`language`: `zh`, `en` or `mixed`. `said`: the words to hear, where they aren't the text itself."""

    group: str
    text: str
    language: str
    said: str = ""

    @property
    def reference(self) -> str:
        """The words to hear."""
        return self.said or self.text


def of_group(group: str, count: int | None = None) -> list[Sentence]:
    """The first `count` sentences of a group; all of them without a count."""
    return [sentence for sentence in SENTENCES if sentence.group == group][:count]


def _language(group: str) -> str:
    return {ENGLISH: "en", MIXED: "mixed"}.get(group, "zh")


_TEXTS: dict[str, tuple[str | tuple[str, str], ...]] = {
    EVERYDAY: (
        "今天天气很好，我们一起去公园散步吧。",
        "早上好，欢迎收听今天的新闻。",
        "请大家在门口排队，不要着急。",
        "妈妈做的红烧肉特别好吃。",
        "下班以后我想去超市买一点水果。",
        "他最近工作很忙，每天都很晚才回家。",
        "图书馆里非常安静，适合看书学习。",
        "您的快递已经送到小区门口，请及时领取。",
        "外面下雨了，出门记得带伞。",
        "这部电影的结局让我很感动。",
        "感谢您的来电，祝您生活愉快。",
        "周末我们打算去海边看日出。",
    ),
    POLYPHONES: (
        "银行的行长正在会议室里等我们。",
        "孩子长大了，头发也变长了。",
        "音乐会让人感到非常快乐。",
        "他重新检查了行李的重量。",
        "这种花的种子很难种活。",
        "我们都去过首都北京。",
        "老师教我们怎样写教案。",
        "他在会计部门负责开会的安排。",
        "请你把窗帘的长度调整一下，再朝着窗户照张相。",
        "这件衣服很便宜，方便的时候可以试一试。",
        "他觉得睡午觉对身体很好。",
        "我还没有把书还给图书馆。",
    ),
    NUMBERS: (
        ("会议定在2024年3月15日上午9点。", "会议定在二零二四年三月十五日上午九点。"),
        ("这双鞋原价399元，现在打8折。", "这双鞋原价三百九十九元，现在打八折。"),
        ("今年的销售额比去年增长了15%。", "今年的销售额比去年增长了百分之十五。"),
        ("请拨打13800138000联系我们。", "请拨打一三八零零一三八零零零联系我们。"),
        ("下一班地铁将在5分钟后到达。", "下一班地铁将在五分钟后到达。"),
        ("气温从12.5度降到了3度。", "气温从十二点五度降到了三度。"),
        ("这座城市有1200万人口。", "这座城市有一千二百万人口。"),
        ("您的账户余额为￥256.80。", "您的账户余额为二百五十六点八零元。"),
        ("列车于18:30从北京南站出发。", "列车于十八点三十分从北京南站出发。"),
        ("他住在12号楼3单元501室。", "他住在十二号楼三单元五零一室。"),
        ("这本书一共有360页，我看了2/3。", "这本书一共有三百六十页，我看了三分之二。"),
        ("比赛的最终比分是3:2。", "比赛的最终比分是三比二。"),
    ),
    QUESTIONS: (
        "请问洗手间在哪里？",
        "你吃过晚饭了吗？",
        "明天的会议几点开始？",
        "这道菜为什么这么咸？",
        "您需要我帮您叫出租车吗？",
        "我们是坐火车去还是坐飞机去？",
        "你能不能把声音调小一点？",
        "谁知道这个问题的答案？",
        "这件毛衣有没有别的颜色？",
        "你觉得哪一种方案更合适呢？",
        "难道你不想和我们一起去旅行吗？",
        "怎么才能学好一门外语？",
    ),
    LONG: (
        "春天来了，公园里的花都开了，孩子们在草地上放风筝，老人们坐在长椅上晒太阳，到处都是欢声笑语。",
        "随着人工智能技术的发展，越来越多的公司开始使用语音合成来制作有声书、导航提示和客户服务电话。",
        "为了保护环境，我们应该少用塑料袋，多乘坐公共交通工具，并且养成随手关灯和节约用水的好习惯。",
        "各位旅客请注意，由于天气原因，前往上海的航班将推迟起飞，请您在候机厅休息，并留意广播通知。",
        "他小时候住在一个靠近大海的村子里，每天傍晚都要和爷爷一起去码头，看渔船一艘一艘地开回来。",
        "这款手机的电池非常耐用，充满电以后可以连续使用两天，而且拍照效果清晰，特别适合喜欢旅行的人。",
        "做这道菜的时候，先把土豆切成小块，用清水泡一会儿，然后放进锅里，加一点盐，用小火慢慢煮熟。",
        "医生建议他每天按时吃药，注意休息，少吃油腻的食物，如果感觉不舒服，就马上到医院来检查。",
        "历史告诉我们，任何一次伟大的进步都不是一个人完成的，而是许多普通人共同努力的结果。",
        "本店将于下周重新开业，届时所有商品都有优惠，欢迎新老顾客前来选购，我们准备了精美的小礼品。",
        "读书的意义不仅在于获得知识，更在于让我们学会思考，在面对困难的时候能够保持冷静和乐观。",
        "经过三个小时的讨论，大家终于达成了一致，决定先完成产品的设计，再考虑如何进行市场推广。",
    ),
    ENGLISH: (
        "Good morning, and welcome to our weekly news podcast.",
        "Please turn left at the next traffic light.",
        "The meeting has been moved to Thursday afternoon.",
        "Could you send me the report before lunch?",
        "My sister works at a small bookshop near the river.",
        "Thank you for calling, someone will be with you shortly.",
        "The train to London leaves from platform two.",
        "Where can I find a good place to eat?",
        "She forgot her umbrella on the bus this morning.",
        "This software helps people who cannot read small print.",
        "We should leave early if we want to avoid the traffic.",
        "The children were playing football in the garden.",
        "Your order has been shipped and will arrive tomorrow.",
        "He has lived in this town for more than twenty years.",
        "Remember to save your work before you close the window.",
        "Would you like a cup of tea or a glass of water?",
        "The weather will be cold and windy over the weekend.",
        "I have never seen such a beautiful sunset before.",
        "Please keep your seat belt fastened until the plane has stopped.",
        "The new library opens its doors to the public next month.",
        "They decided to sell their old house and travel around the world.",
        "Although it was late, the streets were still full of people.",
        "How long does it take to charge the battery?",
        "Our team finished the project two weeks ahead of schedule.",
        ("The ticket costs $15 for adults and $8 for children.",
         "The ticket costs fifteen dollars for adults and eight dollars for children."),
        ("Sales went up by 20% last year.", "Sales went up by twenty percent last year."),
        ("The shop is open from 9 to 5.", "The shop is open from nine to five."),
        ("There are 12 months and 365 days in a year.",
         "There are twelve months and three hundred sixty five days in a year."),
        ("In the beginning there was only a small village, but after the railway was built, thousands of"
         " people came to look for work."),
        ("If you have any questions about your account, please visit our website, or write to us and we will"
         " answer within two days."),
    ),
    MIXED: (
        "请把这个文件发到我的 email。",
        "我们的 team 用 Python 写了一个 server。",
        "今天下午有一个 meeting，别忘了带 laptop。",
        "这个 app 的 design 我很喜欢。",
        "你可以在 Google 上搜索一下。",
        "他刚从 New York 回来，还在倒时差。",
        "请先 login，再修改 password。",
        "我想点一杯 latte，不要加糖。",
        "这个 project 的 deadline 是下周五。",
        "老板说 budget 不够，需要重新讨论。",
        "帮我 check 一下明天的 flight。",
        "他的 PPT 做得很漂亮。",
        "周末一起去看 NBA 比赛吧。",
        "这家 hotel 的 service 非常好。",
        "请在 Windows 系统上安装这个软件。",
        "我的 iPhone 没电了，可以借一下充电器吗？",
        "我们需要更多的 feedback 来改进产品。",
        "她在 Facebook 上有很多朋友。",
        "这首歌的 music video 拍得很有创意。",
        "新来的 manager 是从 Microsoft 过来的。",
        "记得把 code 提交到 GitHub。",
        "这个 bug 已经修好了，请再 test 一次。",
        "今天的主题是 machine learning，也就是机器学习。",
        "你的 presentation 非常 professional。",
        "我们用 Zoom 开会，link 我发到群里了。",
        "这款 AI 产品支持 online 和 offline 两种模式。",
        "欢迎来到 Welcome Center，请到前台办理手续。",
        "他每天都去 gym 锻炼，身材保持得很好。",
        "Hello，大家好，欢迎来到我的频道。",
        "OK，那我们就这么决定了，bye。",
    ),
}  # fmt: skip

SENTENCES: list[Sentence] = [
    Sentence(
        group, *((text, _language(group)) if isinstance(text, str) else (text[0], _language(group), text[1]))
    )
    for group in GROUPS
    for text in _TEXTS[group]
]
