"""A refused form says why in the language of the page; the API's answers stay English."""

import secrets

import pytest

from tests.rig.calls import call
from tests.rig.office import PASSWORD, People, Visitor, text_of
from tests.rig.service import Account, Service


@pytest.fixture
def reader(people: People) -> Visitor:
    """A new operator whose browser asks for Chinese."""
    visitor = people.signed_in(f"zh-{secrets.token_hex(4)}", operator=True)
    visitor.headers["accept-language"] = "zh-CN"
    return visitor


@pytest.mark.parametrize(
    ("password", "said"),
    [
        ("short", "密码至少需要 12 个字符。"),
        ("passwordpassword", "此密码容易被猜到；请使用几个互不相关的词。"),
    ],
)
def test_a_refused_password_is_explained(reader: Visitor, password: str, said: str) -> None:
    answer = reader.post("/me/password", password=password)
    assert answer.status == 400
    assert said in text_of(answer)
    assert "password" not in text_of(answer)


def test_a_wrong_sign_in_is_explained(people: People) -> None:
    visitor = people.visitor()
    visitor.headers["accept-language"] = "zh"
    assert "名称或密码错误。" in text_of(visitor.post("/sign-in", name="nobody", password=PASSWORD))


def test_a_value_of_a_refusal_stays_as_it_was_typed(reader: Visitor) -> None:
    hostile = "{chars}<b>{name!r}"
    answer = reader.post("/site/accounts/new", name=hostile + "x" * 200)
    assert answer.status == 400
    assert "账户名称需要 1 到 100 个可打印字符。" in text_of(answer)
    codes = reader.post("/site/codes", units="5", count="1000000", uses="1")
    assert "兑换码数量必须是 1 到" in text_of(codes)
    cap = reader.post("/keys/new", name="laptop", scopes="chat", cap_units=hostile)
    assert "&#39;{chars}&lt;b&gt;{name!r}/month&#39; 不是有效的限额" in text_of(cap)


@pytest.mark.parametrize(
    ("path", "fields", "said"),
    [
        ("/me", {"low_balance": "many"}, "低余额提醒必须是整数。"),
        ("/me", {"low_balance": "-1"}, "低余额提醒不能小于 0。"),
        ("/site/codes", {"units": "0"}, "单位不能小于 1。"),
        ("/site/codes", {"uses": "1.5"}, "使用次数必须是整数。"),
    ],
)
def test_a_wrong_field_is_named(reader: Visitor, path: str, fields: dict[str, str], said: str) -> None:
    answer = reader.post(path, **fields)
    assert answer.status == 400
    assert said in text_of(answer)


def test_a_page_that_does_not_exist_says_so(reader: Visitor) -> None:
    assert "没有此页面。" in text_of(reader.get("/no-such-page"))


def test_the_rules_of_the_audit_are_in_the_language_of_the_page(reader: Visitor) -> None:
    page = reader.page("/site/health")
    assert "账户余额等于其账本条目之和，且不低于 0" in page
    assert "ledger" not in page


def test_the_api_answers_in_english(site: Service, people: People) -> None:
    people.signed_in("zh-api", units=0)
    key = Account(site, "zh-api").key(name="laptop")
    data = {"model": "svc-chat", "messages": [{"role": "user", "content": "hello"}]}
    url = f"{site.base_url}/chat/completions"
    answer = call("POST", url, key=key.plain, data=data, headers={"accept-language": "zh"})
    assert answer.status == 402
    assert "The account has 0 units and this call costs 1" in answer.body.decode()
