"""Sites of the back office: one for all tests that need none for themselves, and others for a module."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from myna.office.pages import ALL_PAGES
from tests.rig.office import People, Visitor
from tests.rig.oidc_provider import OidcProvider, Plan
from tests.rig.service import RunningService, Service

MakeSite = Callable[..., Service]
_OF_ONE = ("/change", "/one", "/live", ".csv")
PATHS = [
    page.path
    for page in ALL_PAGES
    if page.show and not page.anyone and "{" not in page.path and not page.path.endswith(_OF_ONE)
]
"""The pages of a signed-in operator whose address has no value."""


@pytest.fixture(scope="session")
def site(running_service: RunningService) -> Iterator[Service]:
    """A site with the parrot as its chat channel, and espeak's voices."""
    with running_service(speech="espeak") as made:
        yield made


@pytest.fixture
def people(site: Service) -> People:
    """The people of that site."""
    return People(site)


@pytest.fixture(scope="module")
def operator(site: Service, request: pytest.FixtureRequest) -> Visitor:
    """An operator of that site, for one module: an account may send only so many forms in a minute."""
    name = request.module.__name__.replace("tests.office.test_", "operator-of-")
    return People(site).signed_in(name, operator=True)


@pytest.fixture(scope="module")
def make_site(running_service: RunningService) -> Iterator[MakeSite]:
    """Starts sites that end with the module. Without an argument one has neither chat nor voices."""
    with ExitStack() as sites:
        yield lambda **given: sites.enter_context(running_service(**{"chat_url": None, **given}))


@pytest.fixture(scope="module")
def shared_provider() -> Iterator[OidcProvider]:
    with OidcProvider() as made:
        yield made


@pytest.fixture
def provider(shared_provider: OidcProvider) -> OidcProvider:
    """The provider of the site, without faults."""
    shared_provider.plan = Plan()
    return shared_provider


@pytest.fixture(scope="module")
def oidc_site(make_site: MakeSite, shared_provider: OidcProvider) -> Service:
    return make_site(env=shared_provider.env(MYNA_OIDC_SCOPES="openid email", MYNA_OIDC_LINK_BY_EMAIL="on"))


@pytest.fixture
def oidc_people(oidc_site: Service) -> People:
    return People(oidc_site)
