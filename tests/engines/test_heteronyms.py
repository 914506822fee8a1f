"""English words of one spelling and two sounds, as espeak-ng should have them."""

import pytest

from myna.engines.text.reading import in_english

EXAMPLES = """
I read it yesterday. → I red it yesterday.
I will read it. → I will read it.
She read the book. → She red the book.
Close the door. → Cloze the door.
a close friend → a close friend
a lead pipe, lead-free, lead the way → a led pipe, led-free, lead the way
The lead is a heavy favorite. → The lead is a heavy favorite.
Wind it up. → Wined it up.
Tear it off. → Tare it off.
Use tape to use it. → Uze tape to uze it.
the use of it, use cases → the use of it, use cases
a tear in it → a tare in it
a tear in her eye → a tear in her eye
We went live. → We went lyve.
He dove into the lake. → He dohv into the lake.
Record a video. → Rekord a video.
I am content. → I am contennt.
fresh produce → fresh prohdoose
Oil imports rose. → Oil imm-ports rose.
The company imports from Asia. → The company imports from Asia.
They deliberate on it. → They deliberait on it.
It was deliberate on his part. → It was deliberate on his part.
Progress this year was slow. → Progress this year was slow.
The museum houses art. → The museum houses art.
"""


@pytest.mark.parametrize("example", EXAMPLES.strip().split("\n"))
def test_a_word_of_two_sounds_is_spelled_as_the_one_that_is_meant(example: str) -> None:
    written, said = example.split(" → ")
    assert in_english(written).strip() == said
