"""Who may ask."""

from advisor.integrations.serve._access import Access
from tests.integrations.serve.client import Client
from tests.run_folders import write_run

OWN = {"host": "127.0.0.1:8000"}


def test_the_token_is_needed_long_and_different_each_time(access: Access) -> None:
    assert not access.refusal("GET", f"{access.root}/", OWN)
    for path in ("/", "", "/runs/a/", "/wrong/", f"{access.root[:-1]}/", "/\u00e4/", f"/x{access.root}/"):
        assert "token" in access.refusal("GET", path, OWN)
    assert Access(1).token != Access(1).token
    assert len(Access(1).token) >= 32


def test_a_change_needs_an_origin_and_the_key_of_a_report_opens_this_report_alone(access: Access) -> None:
    assert "own pages" in access.refusal("POST", f"{access.root}/", OWN)
    assert not access.refusal("POST", f"{access.root}/", {**OWN, "origin": "http://127.0.0.1:8000"})
    assert not access.refusal("GET", f"{access.report('a')}/a", OWN)
    for path in (f"{access.report('a')}/b", f"{access.report('a')}/", "/report/", f"{access.report('a')[7:]}/"):
        assert "token" in access.refusal("GET", path, OWN)
    assert access.token not in access.report("a")


def test_every_answer_allows_its_own_files_alone(client: Client) -> None:
    for path in ("/", f"{client.access.root}/", f"{client.access.root}/nothing"):
        answer = client.get(path)
        assert answer.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
        assert answer.headers["cache-control"] == "no-store"
    assert client.get("/").status_code == 403


def test_a_report_reaches_nothing(client: Client, runs: object) -> None:
    run = write_run(runs)  # type: ignore[arg-type]
    (run.path / "report.html").write_text("<script>1</script>", encoding="utf-8")
    answer = client.get(f"{client.access.report(run.path.name)}/{run.path.name}")
    assert answer.text == "<script>1</script>"
    assert answer.headers["content-security-policy"].startswith(
        "sandbox allow-scripts allow-downloads; default-src 'none'"
    )
