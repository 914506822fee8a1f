"""Numbers, signs and abbreviations as an English voice says them, by kind. Where several readings are right,
one is here."""

import time

import pytest

from myna.engines.text.reading import in_english

KINDS = {
    "dates": """
May 5, 2024 → May fifth, twenty twenty four
5 May 2024 → the fifth of May twenty twenty four
July 4th, 1776 → July fourth, seventeen seventy six
2024-05-01 → May first, twenty twenty four
12/25/2024 → December twenty fifth, twenty twenty four
In 1999 → In nineteen ninety nine
in 2010, in 2005 → in twenty ten, in two thousand five
At 10:30 model X → At ten thirty model X
since 1984 → since nineteen eighty four
1,500, then 2,500 people → one thousand five hundred, then two thousand five hundred people
1500 meters → one thousand five hundred meters
the 1990s, the '90s → the nineteen nineties, the nineties
based on 1/2 the team, today 3/4 agree → based on one half the team, today three quarters agree
the 1800s → the eighteen hundreds
1999-2003 → nineteen ninety nine to two thousand three
2023-24 season → twenty twenty three to twenty four season
9/11 → nine eleven
by 12/31, on 6/10 → by December thirty first, on June tenth
the year 1066 → the year ten sixty six
1066 AD → ten sixty six A D
1960s-70s → nineteen sixties to seventies
Jan–Mar 2025 → January to March twenty twenty five
3.5.2024 → May third, twenty twenty four
05-Feb-2025 → February fifth, twenty twenty five
03/2027, 2027-03, Mar '27 → March twenty twenty seven, March twenty twenty seven, March twenty seven
exp. 12/27 → exp. December twenty twenty seven
Tue, Apr 8th → Tuesday, April eighth
1-5 May → the first to the fifth of May
the winter of 2010/11 → the winter of twenty ten to eleven
the 2024 call is on → the twenty twenty four call is on
Class of '07 → Class of oh seven
2024-06-01T08:30:00Z → June first, twenty twenty four, eight thirty U T C
6/1/25–5/31/26 → June first, twenty five to May thirty first, twenty six
1 Jan 2026 – 2 May 2026 → the first of January twenty twenty six to the second of May twenty twenty six
Jan 2020 – Present → January twenty twenty to Present
14 MAR 2026, FY2024-25 → the fourteenth of March twenty twenty six, F Y twenty twenty four to twenty five
""",
    "times": """
3:30 PM → three thirty P M
at 10:05 → at ten oh five
from 9:00-17:00 → from nine to seventeen
open 9am-5pm → open nine A M to five P M
24/7 → twenty four seven
won 24-7, open 24-7 → won twenty four to seven, open twenty four seven
Mon.-Fri. → Monday to Friday.
Jan.-Mar. sales → January to March sales
Mon–Fri 9–5, Tue/Thu & Sun → Monday to Friday nine to five, Tuesday, Thursday and Sunday
10-11:30am → ten to eleven thirty A M
0600 hours → oh six hundred hours
at 1430 hours → at fourteen thirty hours
worked 2000 hours → worked two thousand hours
Mix the dough at 7:15. → Mix the dough at seven fifteen.
a mile in 3:58.4 → a mile in three fifty eight point four
7.30pm → seven thirty P M
12.30-1.30pm → twelve thirty to one thirty P M
11h 40m → eleven hours forty minutes
10am–noon → ten A M to noon
the 10K in 39:45, a time of 1:02:03 → the ten K in thirty nine forty five, a time of one oh two oh three
at 10:05:30, or 17:00 → at ten oh five and thirty seconds, or seventeen hundred
9-5, M-F → nine to five, Monday to Friday
""",
    "money": """
$5.3 billion → five point three billion dollars
$1,234.56 → one thousand two hundred thirty four dollars fifty six cents
£3.99, $0.99, $1 → three pounds ninety nine pence, ninety nine cents, one dollar
$2.5M, $5k → two point five million dollars, five thousand dollars
$5-10 → five to ten dollars
a $20 bill → a twenty dollar bill
$10-million deal → ten million dollar deal
50¢, A$50, ¥1000 → fifty cents, fifty Australian dollars, one thousand yen
₹2,50,000, $20/month, 50€ → two hundred fifty thousand rupees, twenty dollars per month, fifty euros
$5/hr → five dollars per hour
100 USD → one hundred U S dollars
CHF 50 → fifty Swiss francs
€8.1bn. → eight point one billion euros.
a $5k bonus → a five thousand dollar bonus
$3m-$5m, $.05 → three million dollars to five million dollars, five cents
$-5 → minus five dollars
20k EUR → twenty thousand euros
Give me my $20 back. → Give me my twenty dollars back.
the $50 my mom gave me → the fifty dollars my mom gave me
The $20 covers lunch. → The twenty dollars covers lunch.
The $20 helped me. → The twenty dollars helped me.
She lost her $50 yesterday. → She lost her fifty dollars yesterday.
her $20 tickets → her twenty dollar tickets
Every $10 counts. → Every ten dollars counts.
""",
    "units": """
-5°C → minus five degrees Celsius
40–60°C → forty to sixty degrees Celsius
98.6° F, 5 degrees C → ninety eight point six degrees Fahrenheit, five degrees Celsius
90° → ninety degrees
6'2" → six foot two
5' tall → five feet tall
6ft 2in → six feet two inches
12 oz → twelve ounces
2 lbs, 5 yds, 18K gold → two pounds, five yards, eighteen karat gold
1 km → one kilometer
5km/h → five kilometers per hour
60 mph → sixty miles per hour
12.5MB/s → twelve point five megabytes per second
20 m² → twenty square meters
5 m/s² → five meters per second squared
a 6-ft. ladder, after 30 yrs. at work → a six foot ladder, after thirty years at work
Use ≤ 10 mg, it is ≤ 10 → Use at most ten milligrams, it is at most ten
10 sq ft → ten square feet
120/80 mmHg → one hundred twenty over eighty millimeters of mercury
2.4GHz → two point four gigahertz
100W, The 100W too → one hundred watts, The one hundred watts too
3.5" → three point five inches
5m/s → five meters per second
The 5 km took an hour. → The five kilometers took an hour.
Each 100 g contains 5 g. → Each one hundred grams contains five grams.
100-meter dash → one hundred-meter dash
120 bpm → one hundred twenty beats per minute
45°N → forty five degrees north
5"x7" → five by seven inches
~5 km → about five kilometers
>90% → more than ninety percent
at 300 m/s → at three hundred meters per second
a 9mm pistol, 35mm film → a nine millimeter pistol, thirty five millimeter film
a 6" pipe → a six inch pipe
3-5" of snow → three to five inches of snow
a 6' fence → a six foot fence
the "Big 12", 'utf-8' → the "Big twelve", 'utf eight'
10 ft x 12 ft → ten feet by twelve feet
7/16" → seven sixteenths inch
12' x 10' → twelve by ten feet
in kg·m/s → in kilogram meters per second
10 N·m → ten newton meters
2 x 500mg → two by five hundred milligrams
cells/mL, IU/mL → cells per milliliter, I U per milliliter
.5 mg → zero point five milligrams
16 GB/512 GB → sixteen gigabytes/five hundred twelve gigabytes
65 W/m²K → sixty five watts per square meter kelvin
8 J mol⁻¹ K⁻¹ → eight joules per mole per kelvin
6.5 L/100 km → six point five liters per one hundred kilometers
1.2 g/day → one point two grams per day
5 mg/kg/day → five milligrams per kilogram per day
41°24'12"N → forty one degrees twenty four minutes twelve seconds north
""",
    "shares": """
-3.2% → minus three point two percent
10–15% → ten to fifteen percent
5/8 inch → five eighths inch
3/4 cup → three quarters cup
½ cup → one half cup
2½ cups, 1½ lb → two and a half cups, one and a half pounds
1 1/2 cups → one and a half cups
1/100, 1/3rd, 1/250 s → one hundredth, one third, one two hundred fiftieth second
120/80 → one hundred twenty over eighty
50/50 → fifty fifty
1/4 tsp salt → one quarter teaspoon salt
2 Tbsp oil → two tablespoons oil
4.5/5 stars → four point five out of five stars
10/10 → ten out of ten
-3/4 → minus three quarters
rated 4/5 → rated four out of five
page 3/10 → page three of ten
vision of 20/40 → vision of twenty forty
10 min/side → ten minutes per side
""",
    "formulas": """
7 x 6 = 42, y = 3x − 2 → seven times six equals forty two, y equals three x minus two
BMI > 30 is obese, n > 30 → B M I greater than thirty is obese, n is greater than thirty
3+4=7 → three plus four equals seven
10-3=7 → ten minus three equals seven
x^2, 1/x, 5! = 120 → x squared, one over x, five factorial equals one hundred twenty
x³ → x cubed
2^10 → two to the power of ten
10⁻⁵ → ten to the power of minus five
a > b → a is greater than b
x >= 5 → x is greater than or equal to five
a != b → a is not equal to b
√16 = 4 → the square root of sixteen equals four
±5, <5 → plus or minus five, less than five
(The best 5!), 10!/month → (The best five!), ten!/month
5 ± 0.1 → five plus or minus zero point one
10 ÷ 2 → ten divided by two
2x faster → two times faster
1920x1080 → one thousand nine hundred twenty by one thousand eighty
~50 → about fifty
100+, 90%+ → one hundred plus, ninety percent plus
4 × 100 m → four times one hundred meters
π → pi
x^3 - 2x + 1 = 0 → x cubed minus two x plus one equals zero
≥ 18 → at least eighteen
1e-5 → one times ten to the power of minus five
log₂8 → log base two of eight
y = -2x → y equals minus two x
x - 5 → x minus five
x ^ 5 → x to the power of five
E = mc² → E equals m c squared
|-7| = 7 → the absolute value of minus seven equals seven
n² - 1, |x| < 2 → n squared minus one, the absolute value of x is less than two
fewer than <10 → fewer than less than ten
it is > 5 → it is more than five
(a-b)(a+b) → (a minus b)(a plus b)
""",
    "ranges": """
pages 10–12 → pages ten to twelve
10-20 people → ten to twenty people
won 3-2 → won three to two
3:1 → three to one
16:9 display → sixteen to nine display
2:3:1 → two to three to one
a 50-50 chance → a fifty fifty chance
a 1:50 scale → a one to fifty scale
diluted 1:10 → diluted one to ten
mixed with water 1:10 → mixed with water one to ten
A–F, Q1-Q3, 14th–16th → A to F, Q one to Q three, fourteenth to sixteenth
Psalm 23:1-4 → Psalm twenty three one to four
Psalm 119:105 → Psalm one hundred nineteen one hundred five
5M users → five million users
1 250 000 → one million two hundred fifty thousand
100K followers, a 10K race → one hundred thousand followers, a ten K race
""",
    "codes": """
Call 555-1234 → Call five five five, one two three four
+1 (202) 555-0100 → plus one two zero two, five five five, zero one zero zero
123-45-6789 → one two three, four five, six seven eight nine
call 911 → call nine one one
555-0187 x12, +412 → five five five, zero one eight seven extension twelve, plus four hundred twelve
Room 101, Room 1204 → Room one oh one, Room twelve oh four
call 911 or 112, 405 pages → call nine one one or one one two, four hundred five pages
Flight 370 → Flight three seventy
4111 1111 1111 0004 → four one one one, one one one one, one one one one, zero zero zero four
5500 0000 0000 0004 → five five zero zero, zero zero zero zero, zero zero zero zero, zero zero zero four
192.168.1.1 → one nine two dot one six eight dot one dot one
1.2.3 → one point two point three
007 → oh oh seven
PIN 1234 → pin one two three four
9-1-1 → nine one one
1-800-FLOWERS → one eight hundred FLOWERS
ISBN 978-3-16-148410-0 → I S B N nine seven eight, three one six, one four eight four one zero, zero
Order #12345, ext. 305 → Order number one two three four five, extension three zero five
555.123.4567 → five five five, one two three, four five six seven
v1.2.3 → version one point two point three
Your PIN is 4071 → Your pin is four zero seven one
card ending in 8812 → card ending in eight eight one two
Account no. 0012 → Account number zero zero one two
order 500 units → order five hundred units
My phone is 100 percent charged. → My phone is one hundred percent charged.
020 7946 0018 → zero two zero, seven nine four six, zero zero one eight
Boston, MA 02110-1234 → Boston, MA zero two one one zero, one two three four
ISO 9001:2015 → I S O nine thousand one, twenty fifteen
Order #A1029-77, PR #2025 → Order number A one zero two nine, seven seven, P R number two thousand twenty five
10.0.0.1:80 → one zero dot zero dot zero dot one port eight zero
plate 7ABC123 → plate seven A B C one two three
at 1080p → at ten eighty P
Dial *67 → Dial star six seven
Ctrl+Alt+Del → control plus Alt plus delete
H.264 → H two six four
""",
    "names": """
Boeing 747 → Boeing seven forty seven
Airbus A380 → Airbus A three eighty
I-95, F-16, B-52 → I ninety five, F sixteen, B fifty two
GPT-4, MP3s, B12 → G P T four, M P threes, B twelve
iPhone 15 → iPhone fifteen
B2B, C#, C++ → B to B, C sharp, C plus plus
CO₂, H2O → C O two, H two O
World War II → World War two
WWII → World War two
Chapter IV → Chapter four
Henry VIII → Henry the eighth
Louis XIV → Louis the fourteenth
Super Bowl LVIII → Super Bowl fifty eight
GTX 1080Ti → G T X ten eighty Ti
Xbox 360, Porsche 911, Room 214B → Xbox three sixty, Porsche nine eleven, Room two fourteen B
Grade A- → Grade A minus
Elizabeth I of England → Elizabeth the first of England
I-80 W → I eighty west
GMT-5, 401(k), A350-1000 → G M T minus five, four oh one k, A three fifty one thousand
John Smith III → John Smith the third
B♭ → B flat
NaCl, H₂SO₄, Ca²⁺ → N A C L, H two S O four, C A two plus
scene ii → scene two
the XXI century → the twenty first century
Diablo III → Diablo three
an IV drip → an I V drip
Queen Mary I → Queen Mary the first
A 2 m pole → A two meter pole
Error 404: → Error four oh four:
a 404 page, Office 365 → a four oh four page, Office three sixty five
221B Baker St., 350 Fifth Ave. → two twenty one B Baker Street, three fifty Fifth Avenue.
Ste. 200, Apt 204 → Suite two hundred, Apartment two oh four
In 2008 Main Street closed. → In two thousand eight Main Street closed.
USB-A → U S B A
""",
    "abbreviations": """
Dr. Smith, Elm Dr. → Doctor Smith, Elm Drive
Jan: ok → Jan: ok
Main St., St. Mary's St. → Main Street, Saint Mary's Street
St. Louis → Saint Louis
Ms. Lee → Miz Lee
Mr. and Mrs. Lee → Mister and Missus Lee
Sgt. Pepper → Sergeant Pepper
Mt. Everest → Mount Everest
Ft. Worth → Fort Worth
cats vs. dogs → cats versus dogs
Smith Jr. said → Smith Junior said
No. 5 → number five
#1 → number one
approx. 5 → approximately five
i.e. that → that is that
w/o sugar → without sugar
U.S. Army → U S Army
Ph.D. student → P H D student
Jan. 5 → January fifth
3 sq. ft. → three square feet
in Rm. 204 → in Room two oh four
up 3% y/y → up three percent year on year
Sept. 2019 → September twenty nineteen
p. 12, Ep. 5, Fig 2, Eq. (3) → page twelve, episode five, figure two, equation (three)
No. of items: 3 → number of items: three
Minn. and Calif. firms → Minnesota and California firms
Mgr: Al, pls call → Manager: Al, please call
AT&T → A T and T
R&B → R and B
M&Ms → M and M's
and/or → and or
dept. of → department of
Pro Max. → Pro Max.
apt. 5C, Mark's Pl. → Apartment five C, Mark's Place
Rm 204, Bldg C, 55 W 46th St. → Room two oh four, Building C, fifty five west forty sixth Street
1200 N. Main St., £45,000 p.a. → twelve hundred north Main Street, forty five thousand pounds per annum
Eqs. (2)-(4), Tab. 2, Ref. [12] → equations (two) to (four), table two, reference [twelve]
the Sun. → the Sun.
""",
    "acronyms": """
the FBI → the F B I
NASA, TV, DVDs → NASA, T V, D V D's
HTTPS → H T T P S
OK, APIs → okay, A P eyes
the WHO → the W H O
WHO did it → WHO did it
WHO told you that? → WHO told you that?
WHO issued a warning. → W H O issued a warning.
a report by WHO. → a report by W H O.
UNICEF and WHO agree → UNICEF and W H O agree
my DOCS and PICS → my DOCS and PICS
the CZAR saw EVA → the CZAR saw EVA
the VLAN → the V L A N
ICBM → I C B M
EOD → E O D
CI/CD → C I/C D
STOP NOW → STOP NOW
I LOVE YOU → I LOVE YOU
""",
    "files": """
file.txt → file dot T X T
self.name → self dot name
.NET → dot NET
@john → at john
foo(), $HOME, argv0 → foo, dollar HOME, argv zero
#SpaceX, #2024Goals → hashtag SpaceX, hashtag two thousand twenty four Goals
/etc/hosts → slash etc slash hosts
ls -l --all → ls dash l dash dash all
git commit --amend --edit → git commit dash dash amend dash dash edit
The dog --a big one-- barked. → The dog --a big one-- barked.
We met -a long time ago-. → We met -a long time ago-.
user_name → user underscore name
TLSv1.3 → T L S V one point three
john.doe@example.com → john dot doe at example dot com
react@18.2.0 → react at eighteen point two point zero
www.google.com → google dot com
""",
}


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_and_signs_are_said_as_people_say_them(kind: str) -> None:
    examples = [line.split(" → ") for line in KINDS[kind].strip().split("\n")]
    assert [f"{written} → {in_english(written).strip()}" for written, _ in examples] == [
        f"{written} → {said}" for written, said in examples
    ]


@pytest.mark.parametrize("flood", ["1", "138", "$1k", "1.", "1=", "a.", "I ", "'s", "1-", "1 ", "@", "St. "])
def test_a_long_text_of_one_kind_is_read_in_bounded_time(flood: str) -> None:
    """5,000 characters take some 30 ms; a pattern of quadratic time would take seconds."""
    begin = time.process_time()
    in_english((flood * 5000)[:5000])
    assert time.process_time() - begin < 1
