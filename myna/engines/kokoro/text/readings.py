"""Readings that differ from those of pypinyin's dictionaries: of characters, and of words."""

from typing import Final

_CHARACTERS: Final = """
曝bao4 擘bo4 卜bu3 杈cha4 掺chan1 孱chan2 长chang2 匙chi2 豉chi3 啜chuo4 嘀di1 坻di3 嗲dia3 甸dian4 酊ding3
佛fo2 杠gang4 葛ge3 聒guo1 纥he2 珩heng2 鹄hu2 鹘hu2 脊ji3 伽jia1 嚼jiao2 诘jie2 藉jie4 阚kan4 框kuang4
傀kui3 肋lei4 踉liang4 靓liang4 潦liao2 谩man4 靡mi3 缪miao4 拗niu4 耙pa2 澎peng2 骠piao4 颇po1 仆pu2 跄qiang4
茄qie2 炔que1 阙que4 葚shen4 似si4 俟si4 沓ta4 帖tie3 铤ting3 囤tun2 萎wei3 隗wei3 呷xia1 噱xue2 耶ye1
龈yin2 窨yin4 吁yu4 轧zha2 翟zhai2 辗zhan3 怔zheng4 拽zhuai4 椎zhui1 琢zhuo2 柞zuo4
"""
"""The commonest reading, where pypinyin has another one first."""

_WORDS: Final = """
熬 ao1 熬菜 熬白菜
炮 bao1 炮羊肉 pao2 炮炼
奔 ben4 直奔 奔小康 奔着
绷 beng3 绷着脸 beng4 绷硬
柏 bo4 黄柏
膊 bo5 胳膊
缪 miu4 缪斯 缪斯女神 加缪 mou2 塞缪尔
孱 can4 孱头
曾 ceng2 何曾
喳 cha1 喊喊喳喳 嘁嘁喳喳
差 cha1 时差 温差 一差二错
查 cha2 查理 查尔斯
长 chang2 长头发 zhang3 长孙 行长 银行行长 长得 长着 长胖 长满 长个儿
场 chang3 一场比赛 一场雪
绰 chao1 绰起 绰起棍子
朝 chao2 朝鲜 北朝鲜 朝鲜半岛 朝鲜战争 朝鲜人 朝鲜语 zhao1 明朝有意
称 cheng4 过称
种 chong2 种师道 zhong4 接种
重 chong2 重庆市 重耳
处 chu4 用处
创 chuang1 创可贴
卒 cu4 卒中
撮 cuo1 一撮盐
答 da1 答茬
沓 da2 一沓钱
大 da4 大夫人 dai4 大夫 张大夫 王大夫 李大夫 大夫说
待 dai1 待一会儿 待在家里 待着
担 dan4 一担水 货郎担
当 dang4 稳当 行当
倒 dao3 倒在 倒下去 dao4 倒是
地 di4 各地
钉 ding4 钉钉子 钉上
囤 dun4 米囤
垛 duo4 麦垛 草垛 柴垛 垛起来
驮 duo4 驮子
发 fa4 发夹 染发 假发 发质 发色 发量 发梢 发根 发尾 发膜 发丝 fa5 长头发
坊 fang2 作坊
分 fen4 缘分 福分 辈分 情分
缝 feng2 缝针
脯 fu3 果脯 肉脯 杏脯 鹿脯
夫 fu5 大夫
夹 ga1 夹肢窝 jia1 夹克 皮夹克
盖 gai4 盖茨
芥 gai4 芥蓝
干 gan1 晒干
杆 gan3 一杆枪
膏 gao4 膏油 膏车
给 gei3 给我
供 gong1 供养父母
句 gou1 句践 高句丽
贾 gu3 行商坐贾 书贾
鹄 gu3 中鹄
呱 gua1 拉呱
矜 guan1 矜寡孤独
观 guan4 玄妙观
涡 guo1 涡阳
行 hang2 行长 银行行长 一行字 几行字 几行诗 琴行 支行 投行
号 hao2 鬼哭狼号
好 hao4 好强
和 he4 和诗 hu2 和牌
喝 he4 大喝一声 吆喝
哄 hong4 一哄而上
核 hu2 杏核儿
糊 hu2 迷糊 hu4 芝麻糊 辣椒糊
华 hua2 华为 华硕 华莱士 小华 hua4 华阴 西岳华山
划 hua4 刻划
还 huan2 还款
晃 huang4 晃来晃去
徊 hui2 低徊
桧 hui4 秦桧
混 hun2 混蛋 大混蛋 王八混蛋 混球 混水摸鱼
渐 jian1 西学东渐
间 jian1 中间隔
槛 jian4 兽槛 槛车
将 jiang4 麻将
浆 jiang4 浆糊
教 jiao1 教会了
楷 jie1 楷树
结 jie1 开花结果 结果子 树上结了果子 结出
偈 jie2 偈句
颈 jing3 脖颈
劲 jing4 劲舞 劲爆
车 ju1 丢车保帅
柜 ju3 柜柳
卷 juan4 卷子 问卷
圈 juan4 猪圈 圈养 圈肥
角 jue2 口角 坤角 捧角
倔 jue4 脾气倔
菌 jun4 香菌 菌子
隽 jun4 隽秀
咯 ka3 咯痰
看 kan1 看瓜
倥 kong3 倥偬
空 kong4 空着 亏空
会 kuai4 会稽
了 le5 数了
累 lei2 果实累累 硕果累累 lei3 累进 累犯 罪行累累 成千累万 lei4 受累
丽 li2 高句丽
量 liang2 打量 量一量
撩 liao1 撩开
燎 liao3 燎头发
棱 ling2 穆棱
馏 liu4 馏馒头
弄 long4 一条弄
搂 lou1 搂钱 搂柴火 搂草打兔子
露 lou4 露出马脚 走露风声
六 lu4 六合区
捋 luo1 捋起袖子
麻 ma1 麻麻黑
蔓 man2 蔓菁 man4 藤蔓
谩 man2 谩天谎
猫 mao2 猫腰
们 men2 图们 图们江
蒙 meng1 欺蒙 meng3 蒙古 内蒙古 蒙族
眯 mi2 眯了眼
名 ming2 一名 第一名
抹 mo4 抹面
磨 mo4 电磨 磨豆腐 水磨 磨叽
囊 nang1 囊膪
呢 ni2 呢大衣
泥 ni4 泥墙
粘 nian2 粘性 粘膜
区 ou1 区寄 区楚良
扒 pa2 扒钱包 扒羊肉
膀 pang1 膀肿
泡 pao1 眼泡 一泡尿
劈 pi3 劈腿
辟 pi4 辟谷
片 pian4 相片 照片
撇 pie3 一撇 撇捺
颇 po1 颇为 颇具 颇有 偏颇 廉颇 颇多
掊 pou3 掊击
仆 pu1 仆倒
铺 pu1 铺开
朴 pu3 质朴 古朴
缉 qi1 缉边儿 缉鞋口
亟 qi4 亟来请教
卡 qia3 卡住
荨 qian2 荨麻
强 qiang3 强辩 强使
悄 qiao3 低声悄语 悄无声息
雀 qiao3 雀盲眼
切 qie1 横切 qie4 不切实际
曲 qu3 高歌一曲 名曲
任 ren2 任我行 任盈盈 任县 ren4 任天堂
撒 sa4 撒贝宁
散 san3 散客 披头散发 丸散膏丹 散打 散养
臊 sao4 臊红了脸
杉 sha1 杉篙
煞 sha4 煞是好看
色 shai3 掉色 退色
扇 shan1 扇扇子
单 shan4 单县
掸 shan4 掸族
禅 shan4 受禅
汤 shang1 汤汤
舍 she4 舍弟 舍间
乘 sheng4 万乘
什 shi2 什刹海
识 shi2 标识符 标识码 zhi4 标识
似 shi4 似地 飞也似的
峙 shi4 繁峙
数 shu3 数了 历数
说 shui4 说客
伺 si4 伺服
遂 sui4 不遂
踏 ta1 踏实
台 tai1 天台山
覃 tan2 覃思
调 tiao2 调一下 调小 调大 调低 调高 调休 微调 上调 下调 调成 调暗 调亮 调快 调慢 调好 谐调 调配 调音师 调酒
调 tiao2 调酒师 可调 调减 调升 调降 调压
挑 tiao3 挑起 挑头
帖 tie3 发帖 回帖
洞 tong2 洪洞 洪洞县
通 tong4 打了三通鼓
褪 tui4 褪去 tun4 褪套儿
崴 wai3 海参崴
为 wei2 颇为 尤为 最为 广为 大为 略为 广为流传 变为 视为 定为 化为 列为 升为 降为 沦为 选为 评为 合为一体
为 wei2 为学 何为 本为 身为 即为 实为 均为 皆为 名为 意为 译为 写为 解释为 理解为
亡 wu2 亡其
乌 wu4 乌拉草
蹊 xi1 蹊径
鲜 xian1 鲜于 xian3 朝鲜 北朝鲜 朝鲜半岛 朝鲜战争 朝鲜人 朝鲜语 鲜少
铣 xian3 铣铁
见 xian4 风吹草低见牛羊
降 xiang2 降将 降妖
相 xiang4 相簿 相片 属相 相夫教子 生相
削 xiao1 削苹果 削尖
血 xie3 流了点血 吐了两口血 xue4 流血
解 xie4 解县
圩 xu1 赶圩
旋 xuan4 旋风
浚 xun4 浚县
哑 ya1 咿哑
压 ya4 压根
轧 ya4 轧道机 倾轧 轧棉花 轧花 轧马路
咽 yan1 咽部
燕 yan1 燕国 幽燕
约 yao1 约一约
陶 yao2 皋陶
乐 yao4 仁者乐山
掖 ye1 藏掖 ye4 张掖
耶 ye2 是耶非耶
射 ye4 仆射
一 yi1 一名 第一名
尾 yi3 尾巴儿
艾 yi4 怨艾
荫 yin4 福荫
应 ying4 应激
宛 yuan1 大宛
员 yun2 伍员
扎 za1 扎彩
载 zai3 千载 两载
脏 zang1 脏水 太脏了
藏 zang4 藏独 进藏 援藏 藏文 藏语 藏羚羊 川藏线
颤 zhan4 胆颤心惊
着 zhao1 一着不慎 zhao2 打着 zhe5 长着 喝着 吸着 着呢
螫 zhe1 蝎子螫人
挣 zheng4 挣开
氏 zhi1 大月氏
中 zhong4 中意
术 zhu2 金兀术
爪 zhua3 凤爪
拽 zhuai1 拽球
传 zhuan4 名人传 鲁迅传
屯 zhun1 屯邅
吱 zi1 吱声 不吱声
子 zi3 男子 电子 原子 粒子 质子 中子 离子 光子 太子 公子 才子 孔子 孟子 老子 庄子 荀子 墨子 君子 游子 浪子
子 zi3 赤子 瓜子 莲子 天子 仙子 因子 童子 逆子 养子 次子 独子 母子 韩非子 美女子 男子汉 女子们 精子 卵子
子 zi3 棋子 弃子 电子书 电子邮件 天之骄子
咀 zui3 尖沙咀
得 de2 得主
差 chai1 夫差
柏 bo2 柏格森
了 liao3 知了
琢 zuo2 琢磨
荥 ying2 荥经
什 shi2 什邡
空 kong4 空座 空座位 空位 空车位 空铺
曲 qu3 唱曲 听曲 曲牌 作曲
燕 yan1 燕郊 燕昭王 燕太子丹 燕文贵 燕肃 燕京
阆 lang4 阆中
曾 zeng1 曾子 曾参 曾子曰 曾都区 曾轶可 曾黎 曾点 曾几 曾皙 曾一鸣
都 du1 曾都区 郫都区 新都区 都匀 丰都
珲 hun2 珲春
华 hua4 华县 华晨宇 华元 华督 华歆 华雄
曲 qu3 碌曲 玛曲 舟曲
刹 cha4 什刹海
子 zi3 卡子门 迟子建 孙子兵法 曾子 尉缭子 长子县 晏子 曾子曰 陈子昂 杨子荣 章子怡 李子柒
泊 bo2 尼泊尔
任 ren2 任昉 任溶溶 任素汐 任丘
参 shen1 曾参 岑参
查 zha1 查慎行 查海生 查嗣庭 查继佐 查阜西
行 xing2 查慎行
盖 ge3 盖聂 盖宽饶 盖勋 盖延 盖玥希
盖 gai4 盖伦 盖文 盖尔
翟 di2 墨翟
种 chong2 种放 种师中 种世衡 种谔
员 yun4 员半千
召 shao4 召公 召公奭 召平 召虎 召忽
相 xiang4 相如 蔺相如 司马相如
于 wu1 樊于期
食 yi4 审食其 郦食其
其 ji1 审食其 郦食其
日 mi4 金日磾 日磾
阏 yan1 阏氏
氏 zhi1 阏氏
祭 zhai4 祭仲
芾 fu2 米芾
凹 wa1 贾平凹 平凹
朴 pu3 朴树
解 xie4 解珍 解宝 解海龙 解振华
折 she2 折可求 折可适 折彦质 折家将
单 shan4 单廷珪 单春晓 单依纯
几 ji1 曾几
乐 yue4 乐进 乐史 乐毅
仇 qiu2 仇和
着 zhuo2 不着边际 着实
"""
"""A character, and each of its readings with the words in which it has it. The other characters of a word are
read by the dictionary, or by other lines."""

PHRASES: Final = {
    "数了数": "shu3 le5 shu3",
    "数一数": "shu3 yi1 shu3",
    "扇扇子": "shan1 shan4 zi5",
    "种种子": "zhong4 zhong3 zi5",
    "弹子弹": "tan2 zi3 dan4",
}
"""Words that have a character in two readings."""


def _by_word(rows: str) -> dict[str, dict[str, str]]:
    words: dict[str, dict[str, str]] = {}
    for row in rows.split("\n"):
        character, *found = row.split() or ("",)
        for entry in found:
            if entry.isascii():
                reading = entry
            else:
                words.setdefault(entry, {})[character] = reading
    return words


CHARACTERS: Final = {entry[0]: entry[1:] for entry in _CHARACTERS.split()}
WORDS: Final = _by_word(_WORDS)
"""The readings of some characters of each word."""
