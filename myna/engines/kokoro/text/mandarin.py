"""Mandarin text in Han: its words, their readings in pinyin, their tones as they are spoken, their phonemes.

Words are found by jieba, and read by the phrases of pypinyin. A phrase may join words (还 + 书 is huán shū)
or divide one (银行行长), but never begins in one word and ends within another. Some words are read by their
neighbours, see `contexts.py`.

Tone sandhi changes the tones of a dictionary: 一 and 不 by what follows, the first of two third tones to a
second one, and the last syllable of common words to the neutral tone.
"""

import functools
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
import rjieba
from pypinyin.contrib.tone_convert import to_tone3
from pypinyin.phrases_dict import phrases_dict
from pypinyin.pinyin_dict import pinyin_dict

from myna.engines.kokoro.symbols import is_syllable, symbols_of
from myna.engines.kokoro.text.contexts import reading_of, reading_within, readings_in
from myna.engines.kokoro.text.names import Token, name_readings
from myna.engines.kokoro.text.readings import CHARACTERS, PHRASES, WORDS

_TRADITIONAL: Final = (
    "萬與專業東絲兩嚴喪個豐臨為麗舉麼義烏樂喬習鄉書買亂爭於虧雲亞產畝親億僅從倉儀們價眾優會傘偉傳傷倫偽體餘"
    "傭俠侶偵側儲兒黨蘭關興養獸內岡冊寫軍農馮沖決況凍淨涼減湊幾鳳憑凱擊鑿劃劉則剛創刪別剝劇勸辦務動勵勁勞勢"
    "勝區醫華協單賣盧衛卻廠廳歷厲壓厭縣參雙發變敘葉號嘆嚇嗎啟員聽園圍國圖圓聖場壞塊堅壇壩墳墜壟壘墊牆壯聲殼"
    "壺處備複夠頭誇夾奪奮奧婦媽嬌孫學寧寶實審憲宮寬賓對尋導壽將爾塵嘗堯盡層屆屬歲豈島嶺幣帥師帳簾帶幫廣慶廬"
    "庫應廟龐廢開異棄張彎彈強歸當錄徹徑憶憂懷態憐總戀懇惡惱悅懸驚懼慘慣憤願懶戲戰戶撲執擴掃揚擾撫搶護報擔擬"
    "擁攔撥擇掛摯擋掙擠揮撈損換據擲攝擺搖撐敵數齋鬥斬斷無舊時曠晝顯晉曬曉暈暫術機殺雜權條來楊極構槍櫃標棧棟"
    "欄樹樣橋檔樓檢歡歐殘毀畢氣漢湯溝沒滬淚潔灑濁測濟渾濃濤漲潤淵漸漁溫灣濕滾滿濾濱灘滅燈靈災爐點煉爛煙煩燒"
    "熱愛爺牽犧狀猶獨獄獎獵貓豬獻瑪環現電畫暢療瘋癢皺盞鹽監蓋盜盤睜矚礦碼磚礎確禮禍離禿種積稱穩窮竊競筆筍築"
    "簡籃類糧糾紀約紅紋納純紙級紛紐線練組細織終紹經結給絡絕統繼績緒續維綿綠緊網緣編緩縮縱繪羅罰罷聯聰職腦腳"
    "膽脫臉臟艦艙艱節蘇蘋藝藥莊薦營蕭藍薩蔣蟲雖蝦蠻補裝裡裏褲見觀規視覺覽觸譽計訂認討讓訓議訊記講許論設訪證"
    "評識訴詞試詩話誕詢該詳語誤說請諸讀課誰調諒談謀謊謝謠謹譜貝負財責賢敗貨質販貪貧購貫賀貼貴貿費資賊賞賠賴"
    "賺賽贈贊趕趙躍踐車軌軟轉輪輕載較輔輛輩輯輸轎辭邊遼達遷過邁運還這進遠違連遲選遺郵鄧鄭鄰醜釋針釣鈔鋼鐘鑰"
    "錢鑽鐵鈴鉛銀銅鋪鏈銷鎖鍋錯鍵鎮鏡長門閃閉問間閱闊隊陽陰陣階際陸陳險隨隱雞難霧靜頁頂項順須顧頓預領頗頸頻"
    "題額顏風飛飯飲飾飽餅館馬駕駛驗騎騙騰魚鮮鳥鳴鴨鵝麥黃齊齒龍龜後髮麵隻係傑臺鬆誌徵範榮樸瀏嗚噸勻弔朮氾丟"
    "兇汙汎佔佈兌吳呂囪妝牠阬並併侖卹妳彿拋昇臥軋侷剎剋姪姦屍彥恆柵枴洶洩牴盃紉訃貞韋倣倖倆娛峽恥挾狹狽砲祕"
    "紡紗脅脈荊茲託訖貢軒迴釘陝陞飢啞唸啣婁屜崑崙崗彫悽捲掄採捨桿毬氫淺淒淪猙硃絆絃紮紳缽脣脩莢莖覓訝訣訟訛"
    "釦釩頃鹵傢傚勛喲喚喫幀廁廂廄復悶揀揹棗棲欽湧渦渙琺甦痙痠睏硯稈稅絞絨絢肅腎脹萊虛註詠証詛詐診貯貳貶貸軸"
    "週鈕鈣鈉鈞鈍閏閑閒隄韌馭債傾剷勦匯嗆塗塢幹廈彙慄搾搗搆楓溼準滄煥獅瑯痺祿稜粵絹綑綁綏絛羨腸腫葷葦虜蛻詫"
    "詣誠誅詭賈賄賃賂跡遊鄒鉗鉀鈾鉤鉑鉅鉚閘隕頑頒頌飼馳馱馴僥僕僑僱嘔團塹夢寢屢嶄彆慚摟摻槓榦漬滯漣滲滌滷熒"
    "瑤瑣瘧瘍瘉瘓碩窪窩箋箇綻綜綽綴綱綢綵綸聞蓆蒐蒼蝕製誦誣誡誨誘貍賒輓遜遙遞鉸銘鉻銜銑閡閨閩閣閥颱餃餌駁骯"
    "儈儉凜劍劊嘩噓噴嘯墮幟廚慮慼慫慾憫憚撓樁樞槳樑歎毆漿潑澆潛潰澗瑩瘡皚瞇穀窯締緯緻緘緬緝緞罵膠膚蓮蔭蔔蔥"
    "蝸蝨衝誼諄誹豎賦賤賬賭賜踫輝輥適鋅銻鋤鋁銳鋒鋇銲鞏颳餓餒駝駐駒鬧魯鴉儘冪劑勳噹墾憊撻擄撿撾曆橫橢澱澤熾"
    "燙燄瞞禦穎窺簑篩縛膩蕩蕪螞螢諺諱諜諧諮諾謂諷踴輻錠錶鋸錳錫錐錦閻霑頰頹頤餞餡駭駱鬨鮑鴕鴦鴛償嚐嬰嶼嶽彌"
    "擰擱斂斃氈濘濛濫澀濰燦燭燬燴獰獲盪矯簍糞縷繃縫縴聳膿薑薔薊謎謗謙謄趨轄輾轅輿醞鍍鎂錨鍊錘鍾鍬鍛闌闆隸韓"
    "顆餵騁駿鴻鴿叢嚮嬸攆擻檻檸檯瀉瀋濺燻燼甕癒穢竄竅繕繞繡繙罈翹聶臍蟬謬贅蹤蹟軀轍醬釐鎊鎢鎳鎬鎚鎗闖雛餾餽"
    "鯉鵑鼕嚥寵懲攏櫥瀝瀕爍犢獺瓊疇癟癡矇礙禱簽繫繭繹繩繳臘蟻蠅蠍襖譁譚譏鏟隴韻顛饅鬍鯨鵲鵬嚨孃攙瀾瀰礬礫籌"
    "糰辮藹蘆蘊譯譟贏贍鏽闡飄饒饑騷鰓鹹齣齡囂懾攜櫻殲籐纏蠟襪襬譴贓躊轟辯鐮鐳闢響驅騾鶴齧孿巒攤疊癬籠聾襲襯"
    "贖鑄鑑鑒顫驕髒鬚鱉鷗龔囌巖攣攪籤纓纖纔蘿蠱邏鑤鱗黴囑攬癱蠶讒艷贛釀驟鷹鹼齲籬籮釁鑲顱饞灤讚鑷驢纜鑼豔鬱籲"
)
_SIMPLIFIED: Final = (
    "万与专业东丝两严丧个丰临为丽举么义乌乐乔习乡书买乱争于亏云亚产亩亲亿仅从仓仪们价众优会伞伟传伤伦伪体余"
    "佣侠侣侦侧储儿党兰关兴养兽内冈册写军农冯冲决况冻净凉减凑几凤凭凯击凿划刘则刚创删别剥剧劝办务动励劲劳势"
    "胜区医华协单卖卢卫却厂厅历厉压厌县参双发变叙叶号叹吓吗启员听园围国图圆圣场坏块坚坛坝坟坠垄垒垫墙壮声壳"
    "壶处备复够头夸夹夺奋奥妇妈娇孙学宁宝实审宪宫宽宾对寻导寿将尔尘尝尧尽层届属岁岂岛岭币帅师帐帘带帮广庆庐"
    "库应庙庞废开异弃张弯弹强归当录彻径忆忧怀态怜总恋恳恶恼悦悬惊惧惨惯愤愿懒戏战户扑执扩扫扬扰抚抢护报担拟"
    "拥拦拨择挂挚挡挣挤挥捞损换据掷摄摆摇撑敌数斋斗斩断无旧时旷昼显晋晒晓晕暂术机杀杂权条来杨极构枪柜标栈栋"
    "栏树样桥档楼检欢欧残毁毕气汉汤沟没沪泪洁洒浊测济浑浓涛涨润渊渐渔温湾湿滚满滤滨滩灭灯灵灾炉点炼烂烟烦烧"
    "热爱爷牵牺状犹独狱奖猎猫猪献玛环现电画畅疗疯痒皱盏盐监盖盗盘睁瞩矿码砖础确礼祸离秃种积称稳穷窃竞笔笋筑"
    "简篮类粮纠纪约红纹纳纯纸级纷纽线练组细织终绍经结给络绝统继绩绪续维绵绿紧网缘编缓缩纵绘罗罚罢联聪职脑脚"
    "胆脱脸脏舰舱艰节苏苹艺药庄荐营萧蓝萨蒋虫虽虾蛮补装里里裤见观规视觉览触誉计订认讨让训议讯记讲许论设访证"
    "评识诉词试诗话诞询该详语误说请诸读课谁调谅谈谋谎谢谣谨谱贝负财责贤败货质贩贪贫购贯贺贴贵贸费资贼赏赔赖"
    "赚赛赠赞赶赵跃践车轨软转轮轻载较辅辆辈辑输轿辞边辽达迁过迈运还这进远违连迟选遗邮邓郑邻丑释针钓钞钢钟钥"
    "钱钻铁铃铅银铜铺链销锁锅错键镇镜长门闪闭问间阅阔队阳阴阵阶际陆陈险随隐鸡难雾静页顶项顺须顾顿预领颇颈频"
    "题额颜风飞饭饮饰饱饼馆马驾驶验骑骗腾鱼鲜鸟鸣鸭鹅麦黄齐齿龙龟后发面只系杰台松志征范荣朴浏呜吨匀吊术泛丢"
    "凶污泛占布兑吴吕囱妆它坑并并仑恤你佛抛升卧轧局刹克侄奸尸彦恒栅拐汹泄抵杯纫讣贞韦仿幸俩娱峡耻挟狭狈炮秘"
    "纺纱胁脉荆兹托讫贡轩回钉陕升饥哑念衔娄屉昆仑岗雕凄卷抡采舍杆球氢浅凄沦狰朱绊弦扎绅钵唇修荚茎觅讶诀讼讹"
    "扣钒顷卤家效勋哟唤吃帧厕厢厩复闷拣背枣栖钦涌涡涣珐苏痉酸困砚秆税绞绒绚肃肾胀莱虚注咏证诅诈诊贮贰贬贷轴"
    "周钮钙钠钧钝闰闲闲堤韧驭债倾铲剿汇呛涂坞干厦汇栗榨捣构枫湿准沧焕狮琅痹禄棱粤绢捆绑绥绦羡肠肿荤苇虏蜕诧"
    "诣诚诛诡贾贿赁赂迹游邹钳钾铀钩铂巨铆闸陨顽颁颂饲驰驮驯侥仆侨雇呕团堑梦寝屡崭别惭搂掺杠干渍滞涟渗涤卤荧"
    "瑶琐疟疡愈痪硕洼窝笺个绽综绰缀纲绸彩纶闻席搜苍蚀制诵诬诫诲诱狸赊挽逊遥递铰铭铬衔铣阂闺闽阁阀台饺饵驳肮"
    "侩俭凛剑刽哗嘘喷啸堕帜厨虑戚怂欲悯惮挠桩枢桨梁叹殴浆泼浇潜溃涧莹疮皑眯谷窑缔纬致缄缅缉缎骂胶肤莲荫卜葱"
    "蜗虱冲谊谆诽竖赋贱账赌赐碰辉辊适锌锑锄铝锐锋钡焊巩刮饿馁驼驻驹闹鲁鸦尽幂剂勋当垦惫挞掳捡挝历横椭淀泽炽"
    "烫焰瞒御颖窥蓑筛缚腻荡芜蚂萤谚讳谍谐咨诺谓讽踊辐锭表锯锰锡锥锦阎沾颊颓颐饯馅骇骆哄鲍鸵鸯鸳偿尝婴屿岳弥"
    "拧搁敛毙毡泞蒙滥涩潍灿烛毁烩狞获荡矫篓粪缕绷缝纤耸脓姜蔷蓟谜谤谦誊趋辖辗辕舆酝镀镁锚炼锤钟锹锻阑板隶韩"
    "颗喂骋骏鸿鸽丛向婶撵擞槛柠台泻沈溅熏烬瓮愈秽窜窍缮绕绣翻坛翘聂脐蝉谬赘踪迹躯辙酱厘镑钨镍镐锤枪闯雏馏馈"
    "鲤鹃冬咽宠惩拢橱沥濒烁犊獭琼畴瘪痴蒙碍祷签系茧绎绳缴腊蚁蝇蝎袄哗谭讥铲陇韵颠馒胡鲸鹊鹏咙娘搀澜弥矾砾筹"
    "团辫蔼芦蕴译噪赢赡锈阐飘饶饥骚鳃咸出龄嚣慑携樱歼藤缠蜡袜摆谴赃踌轰辩镰镭辟响驱骡鹤啮孪峦摊叠癣笼聋袭衬"
    "赎铸鉴鉴颤骄脏须鳖鸥龚苏岩挛搅签缨纤才萝蛊逻刨鳞霉嘱揽瘫蚕谗艳赣酿骤鹰碱龋篱箩衅镶颅馋滦赞镊驴缆锣艳郁吁"
)
_BY_WORD: Final = tuple(
    (re.compile(pattern), character)
    for pattern, character in (
        (
            r"(?<=\w)(?<![名原巨專专論论編编土合譯译遺遗顯显昭卓新近拙撰雜杂])著(?![名作稱称者述書书錄录論论文譯译]|$)",
            "着",
        ),
        ("(?<=[看聽听走站坐拿說说笑哭睡想等跟帶带穿開开活愛爱忙望守抱拉])著", "着"),
        ("乾(?=[杯燥淨净旱脆洗枯糧粮果貨货癟瘪草涸咳])|(?<=[餅饼晒曬烘風风擦口肉葡萄豆筍笋喝])乾", "干"),
        ("閤(?=[家府第])", "合"),
        ("瞭(?=解|如|然)|(?<=明)瞭", "了"),
    )
)
"""Characters that are simplified in some words alone: 看著, but 著名."""
_TABLE: Final = str.maketrans(_TRADITIONAL, _SIMPLIFIED)
NOTHING_GIVEN: Final[Mapping[int, str]] = {}
_JOINED_WORDS_MAX: Final = 3
_PHRASE_MAX: Final = 8
_PARTICLES: Final = "地得"
"""jieba has words such as 地说, whose first character belongs to the word before it."""
_DIGITS: Final = frozenset("零〇一二三四五六七八九幺十百")
# 一 keeps its tone after these: 第一, 星期一, 统一战线.
_FIRST_AFTER: Final = frozenset("第期周统唯万之初归合专单划如逐惟")
# A number that orders rather than counts, or in a sum: 一月, 一号楼, 一级, 一加一.
_ORDERED: Final = frozenset("月号日楼班级等加减乘除")
_NEUTRAL_WORDS: Final = (
    "这儿 那儿 哪儿 相声 "
    "东西 妈妈 爸爸 哥哥 姐姐 弟弟 妹妹 爷爷 奶奶 叔叔 太太 先生 时候 朋友 漂亮 喜欢 告诉 知道 明白 认识 "
    "意思 衣服 便宜 头发 眼睛 耳朵 月亮 消息 事情 地方 晚上 早上 行李 名字 学生 客气 舒服 麻烦 清楚 热闹 "
    "暖和 凉快 干净 聪明 老实 厉害 结实 打听 打算 商量 休息 招呼 收拾 关系 生意 买卖 窗户 嘴巴 鼻子 豆腐 "
    "萝卜 葡萄 石榴 骆驼 蘑菇 月饼 点心 馒头 石头 木头 骨头 枕头 舌头 丫头 罐头 念头 苦头 甜头 护士 大夫 "
    "师傅 徒弟 丈夫 亲戚 邻居 姑娘 儿子 孩子 我们 你们 他们 她们 咱们 人们 什么 怎么 那么 这么 多么 "
    "为什么 觉得 记得 晓得 懂得 值得 省得 看见 部分 力气 精神 脾气 福气 运气 态度 机灵 糊涂 马虎 唠叨 "
    "啰嗦 疙瘩 指甲 胳膊 屁股 尾巴 苍蝇 狐狸 畜生 庄稼 粮食 烧饼 包袱 扫帚 钥匙 玻璃 牌楼 胡同 云彩 闺女 "
    "媳妇 婆婆 公公 舅舅 姥姥 宝宝 星星 猩猩 谢谢 看看 听听 说说 想想 试试 走走 等等 尝尝 问问 聊聊"
)
_NEUTRAL: Final = frozenset(_NEUTRAL_WORDS.split())
"""Words whose last syllable has the neutral tone, which the dictionary gives its full tone."""


def simplified(text: str) -> str:
    """The text with its common traditional characters as simplified ones, each by one."""
    for pattern, character in _BY_WORD:
        text = pattern.sub(character, text)
    return text.translate(_TABLE)


class Word(msgspec.Struct, frozen=True):
    """A word and the syllable of each of its characters, as `zhong1`; empty for one without a reading. With
    `given` the text itself says how it is read."""

    text: str
    pinyin: tuple[str, ...]
    given: bool = False


def words(text: str, given: Mapping[int, str] = NOTHING_GIVEN) -> list[Word]:
    """The words of a text in Han with their readings; traditional characters become simplified. `given` are
    the readings of some places."""
    text = simplified(text)
    tokens = list(_divided(rjieba.tag(text)))
    texts = [token.text for token in tokens]
    decided = {**name_readings(tokens, _is_known), **dict(readings_in(text)), **given}
    found, begin = [], 0
    for at, word in enumerate(_read(texts)):
        usual = reading_of(texts, at, word.pinyin)
        reading = tuple(decided.get(place, syllable) for place, syllable in enumerate(usual, begin))
        found.append(
            Word(word.text, reading, not given.keys().isdisjoint(range(begin, begin + len(reading))))
        )
        begin += len(word.text)
    return found


def has_reading(character: str) -> bool:
    """Whether a Han character can be spoken."""
    return bool(_syllable(character))


def _is_known(word: str) -> bool:
    return word in WORDS or word in PHRASES or word in phrases_dict


def _divided(found: Sequence[tuple[str, str]]) -> Iterator[Token]:
    for word, kind in found:
        if len(word) == 2 and word[0] in _PARTICLES and word not in phrases_dict:
            yield Token(word[0], "u", True)
            yield Token(word[1], kind, True)
        else:
            yield Token(word, kind, rjieba.has_word(word))


def _read(found: Sequence[str]) -> Iterator[Word]:
    at = 0
    while at < len(found):
        for count in range(min(_JOINED_WORDS_MAX, len(found) - at), 0, -1):
            reading = _phrase("".join(found[at : at + count]))
            if reading:
                yield from _shared_out(found[at : at + count], reading)
                at += count
                break
        else:
            yield Word(found[at], tuple(_by_phrases(found[at])))
            at += 1


def _shared_out(found: Sequence[str], reading: Sequence[str]) -> Iterator[Word]:
    begin = 0
    for word in found:
        yield Word(word, tuple(reading[begin : begin + len(word)]))
        begin += len(word)


def _by_phrases(word: str, longest: int = _PHRASE_MAX) -> Iterator[str]:
    """The reading of a word by its longest phrases from the left, none of more than `longest` characters."""
    at = 0
    while at < len(word):
        within = reading_within(word, at)
        if within:
            yield within
            at += 1
            continue
        for end in range(min(len(word), at + longest), at + 1, -1):
            reading = _phrase(word[at:end])
            if reading:
                yield from reading
                at = end
                break
        else:
            yield _syllable(word[at])
            at += 1


@functools.lru_cache(maxsize=8192)
def _phrase(text: str) -> tuple[str, ...] | None:
    """The reading of a phrase of two characters or more, None if there is none."""
    if text in PHRASES:
        return tuple(PHRASES[text].split())
    special = WORDS.get(text)
    if special:
        usual = _dictionary(text) or tuple(_by_phrases(text, len(text) - 1))
        return tuple(special.get(character, one) for character, one in zip(text, usual, strict=True))
    return _dictionary(text)


def _dictionary(text: str) -> tuple[str, ...] | None:
    """The reading of a phrase by pypinyin."""
    if text not in phrases_dict:
        return None
    found = tuple(_toned(readings[0]) for readings in phrases_dict[text])
    return found if len(found) == len(text) and all(found) else None


@functools.lru_cache(maxsize=8192)
def _syllable(character: str) -> str:
    """The usual reading of a character, empty if it has none."""
    return CHARACTERS.get(character) or _toned(pinyin_dict.get(ord(character), "").split(",")[0])


def _toned(marked: str) -> str:
    """`zhong1` for `zhōng`; empty if the model has no such syllable."""
    syllable = to_tone3(marked, neutral_tone_with_five=True) if marked else ""
    return syllable if is_syllable(syllable) else ""


def spoken_tones(words: Sequence[Word]) -> list[Word]:
    """The words with the tones in which they are spoken, one after another without a pause."""
    text = "".join(word.text for word in words)
    tones = [syllable for word in words for syllable in _weakened(word)]
    given = [word.given for word in words for _ in word.pinyin]
    tones = _third(words, _one_and_not(text, tones, given))
    spoken, begin = [], 0
    for word in words:
        spoken.append(Word(word.text, tuple(tones[begin : begin + len(word.text)])))
        begin += len(word.text)
    return spoken


def _weakened(word: Word) -> tuple[str, ...]:
    if word.text in _NEUTRAL and not word.given:
        return (*word.pinyin[:-1], word.pinyin[-1][:-1] + "5")
    return word.pinyin


def _one_and_not(text: str, syllables: list[str], given: Sequence[bool]) -> list[str]:
    changed = list(syllables)
    for at in range(len(text) - 1, -1, -1):
        before, after = text[at - 1 : at] if at else "", text[at + 1 : at + 2]
        if after == "点" and text[at + 2 : at + 3] in _DIGITS:
            after = "零"  # a decimal
        following = changed[at + 1][-1:] if after else ""
        if given[at]:
            continue
        if text[at] == "一":
            changed[at] = "yi" + _tone_of_one(before, after, following)
        elif text[at] == "不" and changed[at]:
            changed[at] = "bu" + ("5" if before and before == after else "2" if following == "4" else "4")
    return changed


def _tone_of_one(before: str, after: str, following: str) -> str:
    if not after or before in _FIRST_AFTER or after in _ORDERED or before in _DIGITS:
        return "1"
    if after in _DIGITS and after not in "百":
        return "1"
    if before and before == after:
        return "5"
    return "2" if following == "4" or after == "个" else "4"


def _third(words: Sequence[Word], syllables: list[str]) -> list[str]:
    """The first of two third tones is a second one within a word, and between words of which one has one
    syllable."""
    changed = list(syllables)
    ends, end = set(), 0
    for word, following in itertools.pairwise(words):
        end += len(word.text)
        if len(word.text) > 1 and len(following.text) > 1:
            ends.add(end - 1)
    for at in range(len(changed) - 2, -1, -1):
        pair = changed[at][-1:] == "3" and syllables[at + 1][-1:] == "3"
        if pair and at not in ends and changed[at + 1][-1:] in "23":
            changed[at] = changed[at][:-1] + "2"
    return changed


def phonemes(text: str, given: Mapping[int, str] = NOTHING_GIVEN) -> Iterator[tuple[int, str]]:
    """The place of each word of a text in Han and its phonemes, with readings that are `given` at some
    places. Characters without a reading are omitted."""
    at = 0
    for word in spoken_tones(words(text, given)):
        if sound := "".join(symbols_of(syllable) for syllable in word.pinyin if syllable):
            yield at, sound
        at += len(word.text)
