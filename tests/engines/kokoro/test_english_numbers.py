"""English numbers in words."""

import pytest

from myna.engines.kokoro.text.english_numbers import in_words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It costs $5.20 or €1.", "It costs 5 dollars 20 cents or 1 euro."),
        ("£1,250.00, $0.5", "1,250 pounds, 0.5 dollars"),
        ("$3.5 million for 50€", "3.5 million dollars for 50 euros"),
        ("Call 555-1234.", "Call 5 5 5, 1 2 3 4."),
        ("+1 (202) 555-0100", "1, 2 0 2, 5 5 5, 0 1 0 0"),
        ("20 km at 5°C, 80km/h", "20 kilometers at 5 degrees Celsius, 80 kilometers per hour"),
        ("1/2 cup, 3/4, 5/6, 1/2/2024", "one half cup, three quarters, 5/6, 1/2/2024"),
        ("10-15 people, 9–5, 2024-05-01", "10 to 15 people, 9 to 5, 2024-05-01"),
        ("In 1999, 1905 and 1800", "In 19 99, 19 oh 5 and 1800"),
        ("1,999 and 1999.5", "1,999 and 1999.5"),
        ("A Ph.D. at 18", "A PHD. at 18"),
        ("v2.0.1 has 3 parts", "v2.0.1 has 3 parts"),
    ],
)
def test_numbers_as_people_read_them(text: str, expected: str) -> None:
    assert in_words(text) == expected
