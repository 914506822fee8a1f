"""Recipes of blends: voices and weights become shares, and a wrong recipe is explained."""

import pytest

from myna.engines.blend import BlendPart, can_make, parts_of


@pytest.mark.parametrize(
    ("recipe", "shares"),
    [
        ("a:2+b:1", {"a": 2 / 3, "b": 1 / 3}),
        ("b:1+a:3", {"a": 0.75, "b": 0.25}),
        ("a(2)+b(1)", {"a": 2 / 3, "b": 1 / 3}),
        ("b+a", {"b": 0.5, "a": 0.5}),
        ("a:0.5+b:0.25+c:0.25", {"a": 0.5, "b": 0.25, "c": 0.25}),
        ("a:999.99+b:0.01", {"a": 0.99999, "b": 0.00001}),
        ("a+b+c+d+e", dict.fromkeys("abcde", 0.2)),
    ],
)
def test_the_shares_add_up_to_1_and_the_largest_is_first(recipe: str, shares: dict[str, float]) -> None:
    parts = parts_of(recipe)
    assert [part.voice_id for part in parts] == list(shares)
    assert [part.share for part in parts] == pytest.approx(list(shares.values()))


@pytest.mark.parametrize(
    ("recipe", "reason"),
    [
        ("", "must be voices with their weights, like zf_xiaoxiao:2+zf_xiaobei:1"),
        ("a:1+", "must be voices with their weights"),
        (":1+b:1", "must be voices with their weights"),
        ("a:1", "must be of 2 to 5 voices"),
        ("a+b+c+d+e+f", "must be of 2 to 5 voices"),
        ("a:1+b:1+a:2", "a must be named once"),
        *(
            (f"a:{weight}+b:1", "the weight of a must be a number from 0.01 to 999.99")
            for weight in ("", "0", "0.00", "-1", "1000", "0.001", "1e2", "nan", "１", " 1", "1:1", "1\n")
        ),
    ],
)
def test_a_wrong_recipe_is_explained(recipe: str, reason: str) -> None:
    with pytest.raises(ValueError, match="^" + reason.replace("+", r"\+")):
        parts_of(recipe)


def test_a_recipe_can_be_made_of_the_voices_that_it_names() -> None:
    assert can_make("a:2+b:1", {"a", "b", "c"})
    assert not can_make("a:2+b:1", {"a", "c"})
    assert not can_make("a", {"a"})
    assert parts_of("a+b")[0] == BlendPart("a", 0.5)
