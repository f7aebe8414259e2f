"""A client of the pages in this process."""

from typing import Any

from starlette.testclient import TestClient
from starlette.types import ASGIApp

from advisor.integrations.serve._access import Access
from tests.reporting.test_html import with_plain_spaces


class Client(TestClient):
    """Asks for paths below the token; ``foreign`` asks for paths as they are."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.own = f"http://{access.host}:{access.port}"
        super().__init__(app, base_url=self.own, follow_redirects=False)
        self.access = access

    def page(self, path: str) -> str:
        answer = self.get(f"{self.access.root}{path}")
        assert answer.status_code == 200, answer.text
        return with_plain_spaces(answer.text)

    def change(self, path: str, content: bytes = b"", **headers: str) -> Any:
        return self.post(f"{self.access.root}{path}", content=content, headers={"origin": self.own, **headers})
