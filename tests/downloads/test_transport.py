"""Where redirects may lead, and what each host is told."""

import pytest

from advisor.downloads.files import Unavailable
from advisor.downloads.transport import Client, Transport, _redirected
from tests.catalog.conftest import Answer, Shelf


@pytest.mark.parametrize(
    ("target", "there"),
    [
        ("/b?c", "https://host.example/b?c"),
        ("https://other.example/b", "https://other.example/b"),
        ("//other.example/b", "https://other.example/b"),
    ],
)
def test_a_redirect_may_be_relative_and_lead_to_another_host(target: str, there: str) -> None:
    assert _redirected("https://host.example/a", target) == there


def test_a_redirect_does_not_give_up_the_encryption() -> None:
    with pytest.raises(Unavailable, match="redirects from https to 'http://host.example/b', without encryption"):
        _redirected("https://host.example/a", "http://me:secret@host.example/b")


def test_a_redirect_to_another_host_does_not_get_the_credentials(shelf: Shelf) -> None:
    other = shelf.url.replace("127.0.0.1", "localhost")
    shelf.put("/a", Answer(status=302, headers={"Location": f"{other}/b"}))
    shelf.put("/b", b"here")
    here = shelf.url.partition("//")[2]
    with Client(Transport(credentials=((here, "me", "secret"),))) as client:
        body, response = client.page(f"{shelf.url}/a", "*/*")
    assert (body, response.url) == (b"here", f"{other}/b")
    assert "Authorization" in shelf.asked("/a")[0]
    assert "Authorization" not in shelf.asked("/b")[0]
