"""Sign-in by OpenID Connect on the pages, with a real server process and a provider over a socket."""

import re
from pathlib import Path
from urllib.parse import quote, urlencode

from tests.office.conftest import MakeSite
from tests.office.test_edge import ASKED, forget_passwords, is_signed_in
from tests.rig.calls import Answer
from tests.rig.office import PASSWORD, People, Visitor, text_of
from tests.rig.oidc_provider import CLIENT_SECRET, DROP, WELL_KNOWN, OidcProvider, Plan
from tests.rig.service import Service
from tests.rig.waiting import SOON_S, wait_until

CALLBACK = "/sign-in/oidc/callback"
CROSS_SITE = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
FROM_ELSEWHERE = CROSS_SITE | {"referer": "https://idp.example/"}
SESSION = "myna"


def begin(visitor: Visitor, path: str = "/sign-in/oidc", **fields: str) -> str:
    """Presses the button; the provider's address."""
    answer = visitor.post(path, **fields)
    if answer.status != 200:
        raise AssertionError(f"{answer.status} {text_of(answer)}")
    (url,) = re.findall(r'http-equiv="refresh" content="0; url=([^"]+)"', answer.body.decode())
    return str(url).replace("&amp;", "&")


def come_back(visitor: Visitor, parameters: dict[str, str]) -> Answer:
    """The callback as the browser opens it."""
    return visitor.get(f"{CALLBACK}?{urlencode(parameters)}", FROM_ELSEWHERE)


def go(visitor: Visitor, provider: OidcProvider, path: str = "/sign-in/oidc", **fields: str) -> Answer:
    """To the provider and back."""
    return come_back(visitor, provider.approve(begin(visitor, path, **fields)))


def linked(people: People, provider: OidcProvider, name: str, *, operator: bool = False) -> Visitor:
    """A person whose account is linked to the subject of the same name."""
    visitor = people.signed_in(name, operator=operator)
    provider.subject = name
    provider.email = f"{name}@elsewhere.example"
    answer = go(visitor, provider, "/me/oidc")
    assert (answer.status, answer.headers["location"]) == (303, "/office/me")
    return visitor


def test_a_person_links_the_account_signs_in_and_unlinks(oidc_people: People, provider: OidcProvider) -> None:
    visitor = linked(oidc_people, provider, "ada")
    assert "The account is linked." in visitor.page("/me")
    forget_passwords(oidc_people.service)
    asked = text_of(visitor.post("/me/second-factor"))
    assert ASKED in asked and "Or sign in again at the provider" in asked
    visitor.submit("/sign-in", name="ada", password=PASSWORD)
    other = oidc_people.visitor()
    assert "Sign in with Keystone" in other.page("/sign-in")
    answer = go(other, provider)
    assert (answer.status, answer.headers["location"]) == (303, "/office")
    assert is_signed_in(other)
    assert "The link is removed." in visitor.submit("/me/oidc/remove")
    assert is_signed_in(visitor) and not is_signed_in(other)
    assert "No account is linked to you" in text_of(go(other, provider))
    shown = oidc_people.service.cli("activity", "--command", "account oidc ada")
    assert [row["command"] for row in shown] == [
        "myna account oidc ada --remove",
        "myna account oidc ada --subject ada",
    ]
    assert {row["by"] for row in shown} == {"ada"}


def test_a_sign_in_at_a_provider_leads_to_no_other_site(oidc_people: People, provider: OidcProvider) -> None:
    visitor = linked(oidc_people, provider, "cyd")
    for target in ("//example.org", "/office/../x\\y"):
        answer = go(oidc_people.visitor(), provider, f"/sign-in/oidc?next={quote(target)}")
        assert answer.headers["location"] == "/office"
        assert go(visitor, provider, "/me/oidc/confirm", page=target).headers["location"] == "/office"


def test_an_answer_signs_in_once_the_browser_that_began(oidc_people: People, provider: OidcProvider) -> None:
    linked(oidc_people, provider, "eve")
    mine, other = oidc_people.visitor(), oidc_people.visitor()
    begin(other)
    parameters = provider.approve(begin(mine))
    assert "another browser" in text_of(come_back(other, parameters))
    assert not is_signed_in(other)
    assert come_back(mine, parameters).status == 303
    mine.cookies.pop(SESSION)
    assert come_back(mine, parameters).status == 400
    assert not is_signed_in(mine)


def test_a_parameter_that_is_there_twice_is_refused(oidc_people: People, provider: OidcProvider) -> None:
    linked(oidc_people, provider, "flo")
    visitor = oidc_people.visitor()
    parameters = urlencode(provider.approve(begin(visitor)))
    assert visitor.get(f"{CALLBACK}?{parameters}&code=x", FROM_ELSEWHERE).status == 400
    assert not is_signed_in(visitor)


def test_a_link_is_finished_by_the_session_that_began_it(oidc_people: People, provider: OidcProvider) -> None:
    visitor = oidc_people.signed_in("gil")
    provider.subject = "gil"
    parameters = provider.approve(begin(visitor, "/me/oidc"))
    visitor.submit("/sign-in", name="gil", password=PASSWORD)
    assert come_back(visitor, parameters).status == 400
    assert "Link" in visitor.page("/me") and "linked" not in visitor.page("/me").lower()


def test_the_provider_confirms_a_person_without_a_password(
    oidc_people: People, provider: OidcProvider
) -> None:
    oidc_people.service.cli("account", "add", "jo")
    oidc_people.service.cli("account", "oidc", "jo", "--subject", "jo")
    provider.subject = "jo"
    visitor = oidc_people.visitor()
    assert go(visitor, provider).status == 303
    referer = {"referer": f"{oidc_people.service.root_url}/office/me"}
    again = {"referer": f"{oidc_people.service.root_url}/office/me/second-factor"}
    assert 'name="page" value="/office/me"' in visitor.post("/me/second-factor", again).body.decode()
    asked = visitor.post("/me/second-factor", referer)
    page = asked.body.decode()
    assert "Confirm that it is you" in page and 'name="current_password"' not in page
    assert 'name="page" value="/office/me"' in page
    provider.plan = Plan(claims={"auth_time": DROP})
    assert go(visitor, provider, "/me/oidc/confirm", page="/office/me").status == 400
    assert "Confirm that it is you" in text_of(visitor.post("/me/second-factor", referer))
    provider.plan = Plan()
    before = visitor.cookies[SESSION]
    answer = go(visitor, provider, "/me/oidc/confirm", page="/office/me")
    assert answer.headers["location"] == "/office/me"
    assert visitor.cookies[SESSION] != before
    assert "Scan this with" in text_of(visitor.result("/me/second-factor"))
    refused = visitor.post("/me/oidc/remove")
    assert refused.status == 400 and "Set a password first" in text_of(refused)


def test_a_verified_email_address_links_an_account(oidc_people: People, provider: OidcProvider) -> None:
    oidc_people.service.cli("account", "add", "lee", "--email", "lee@example.org")
    provider.subject, provider.email = "lee", "LEE@example.org"
    provider.plan = Plan(claims={"email_verified": False})
    assert go(oidc_people.visitor(), provider).status == 400
    provider.plan = Plan()
    visitor = oidc_people.visitor()
    assert go(visitor, provider).status == 303
    assert oidc_people.service.cli("account", "oidc", "lee")["subject"] == "lee"
    assert oidc_people.service.cli("account", "oidc", "lee", "--remove")["subject"] == ""
    assert not is_signed_in(visitor)


def test_a_command_links_a_subject_to_one_account(oidc_site: Service, site: Service) -> None:
    for name in ("rex", "sue"):
        oidc_site.cli("account", "add", name)
    linked_to = oidc_site.cli("account", "oidc", "rex", "--subject", "a subject")
    assert (linked_to["issuer"], linked_to["subject"]) == (oidc_site.env["MYNA_OIDC_ISSUER"], "a subject")
    for name, subject, why in (("sue", "a subject", "another account"), ("sue", "", "1 to 255")):
        refused = oidc_site.command("account", "oidc", name, "--subject", subject)
        assert refused.code == 1 and why in refused.stderr
    site.cli("account", "add", "rex")
    assert "MYNA_OIDC_ISSUER is not set" in site.command("account", "oidc", "rex", "--subject", "x").stderr


def test_a_providers_failure_is_shown_with_a_request_id(oidc_people: People, provider: OidcProvider) -> None:
    visitor = oidc_people.visitor()
    visitor.headers["accept-language"] = "zh"
    parameters = provider.approve(begin(visitor))
    provider.plan = Plan(statuses={"/realm/token": 500})
    answer = come_back(visitor, parameters)
    assert answer.status == 503 and "登录服务商没有正常响应" in text_of(answer)
    assert answer.headers["x-request-id"] in text_of(answer)
    assert not is_signed_in(visitor)


def test_the_log_has_the_reason_and_no_secret(oidc_people: People, provider: OidcProvider) -> None:
    linked(oidc_people, provider, "moe")
    visitor = oidc_people.visitor()
    url = begin(visitor)
    parameters = provider.approve(url)
    provider.plan = Plan(claims={"nonce": "other"})
    assert come_back(visitor, parameters).status == 400
    reason = "OpenID Connect from 127.0.0.1 failed, account 0: the ID token has another nonce"
    stderr = oidc_people.service.folder / "stderr"
    wait_until(lambda: reason in stderr.read_text(), SOON_S, "the log has the reason")
    log = stderr.read_text()
    secrets = [CLIENT_SECRET, "secret-of-the-tests", visitor.cookies["myna-oidc"], provider.sent[-1]]
    secrets += [parameters["state"], parameters["code"], *re.findall(r"nonce=([^&]+)", url)]
    assert not [secret for secret in secrets if secret in log]


def test_a_provider_that_is_down_at_the_start_stops_no_other_sign_in(
    make_site: MakeSite, provider: OidcProvider
) -> None:
    provider.plan = Plan(statuses={WELL_KNOWN: 500})
    people = People(make_site(env=provider.env()))
    people.signed_in("ned")
    visitor = people.visitor()
    assert visitor.post("/sign-in/oidc").status == 503
    visitor.submit("/sign-in", name="ned", password=PASSWORD)


def test_a_site_without_a_provider_has_no_such_page(site: Service, people: People) -> None:
    visitor = people.signed_in("oz")
    assert "Sign in with" not in people.visitor().page("/sign-in") + visitor.page("/me")
    for path in ("/sign-in/oidc", "/me/oidc", "/me/oidc/confirm"):
        assert visitor.post(path).status == 404
    assert visitor.get(f"{CALLBACK}?state=x&code=y").status == 404


def test_the_secret_comes_from_a_file_that_others_cannot_read(
    make_site: MakeSite, provider: OidcProvider, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    file.write_text(CLIENT_SECRET + "\n")
    file.chmod(0o600)
    env = provider.env(MYNA_OIDC_CLIENT_SECRET="", MYNA_OIDC_CLIENT_SECRET_FILE=str(file))
    service = make_site(env=env)
    people = People(service)
    linked(people, provider, "pia")
    assert go(people.visitor(), provider).status == 303
    service.stop()
    file.chmod(0o640)
    ended = service.command("serve")
    assert ended.code == 2 and "it must be 0600" in ended.stderr and CLIENT_SECRET not in ended.stderr


def test_the_cookie_of_an_attempt_is_for_this_site_alone(oidc_people: People, provider: OidcProvider) -> None:
    (cookie,) = oidc_people.visitor().post("/sign-in/oidc").cookies
    assert cookie.startswith("myna-oidc=mynaoidc_")
    assert "HttpOnly" in cookie and "SameSite=lax" in cookie and "Domain" not in cookie
