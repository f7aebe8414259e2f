"""A secret in any address, option or variable is in nothing that is kept or shown."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.catalog.user_models.models import labels_file
from tests.makers.commands import Advisor, Said, ended
from tests.measurement import small_models
from tests.tables import with_cases

pytestmark = pytest.mark.integration

SECRET = "Hush4"
USER = f"http://me:{SECRET}"
VARIABLES = {
    "PIP_INDEX_URL": f"{USER}@127.0.0.1:9/simple", "PIP_EXTRA_INDEX_URL": f"{USER}@127.0.0.1:9/more",
    "HF_TOKEN": SECRET, "HF_ENDPOINT": f"{USER}@127.0.0.1:9", "PGPASSWORD": SECRET, "HTTP_PROXY": "",
    "AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
    "AWS_MAX_ATTEMPTS": "1", "MLFLOW_TRACKING_PASSWORD": SECRET,
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0", "npm_config_registry": f"{USER}@h",
}  # fmt: skip

LIMITS = ("--budget", "1s", "--compressions", "float32", "--threads", "1")


class Refuses(BaseHTTPRequestHandler):
    """Ask everybody for a password, also who gave one, but let them list the experiments before a search."""

    def do_GET(self) -> None:
        self.send_error(401)

    def do_POST(self) -> None:
        if not self.path.endswith("/experiments/search"):
            return self.send_error(401)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")
        return None

    def log_message(self, *_: object) -> None:
        pass


def test_a_secret_is_in_no_file_and_no_output_of_a_search(advisor: Advisor, in_process: None, tmp_path: Path) -> None:
    settings = {"ADVISOR_CONFIG_DIR": str(tmp_path / "config"), **VARIABLES}
    (tmp_path / "net.tflite").write_bytes(small_models.classifier(classes=5))
    labels_file(tmp_path)
    added = ("catalog", "add", "net.tflite", "--labels", "labels.txt", "--mean", "127.5", "--std", "127.5")
    ended(advisor(*added, **settings))
    (tmp_path / "config" / "models" / "net.tflite").unlink()  # nothing is measured
    with HTTPServer(("127.0.0.1", 0), Refuses) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"{USER}@127.0.0.1:{server.server_port}"
        mirror, log = f"{address}/files?token={SECRET}", ("--log-to", f"mlflow:{address}")
        said = [
            advisor("search", "--candidates", "net", *LIMITS, "--mirror", mirror, *log, **settings),
            advisor("report", "runs/latest", "--to", "again", *log, **settings),
            advisor("catalog", "fetch", "squeezenet_1.1_227", **{**settings, "ADVISOR_MIRROR": mirror}),
        ]
        server.shutdown()
    assert [each.code for each in said] == [3, 3, 3], [each.err[-300:] for each in said]
    assert (tmp_path / "again" / "report.html").is_file()
    assert [place for place, text in _places(tmp_path, said) if SECRET in text] == []


@with_cases
def test_a_refused_address_hides_its_secret(quick_advisor: Advisor, tmp_path: Path, options: list[str]) -> None:
    given = (option.replace("SECRET", SECRET) for option in options)
    said = ended(quick_advisor("search", *LIMITS, *given, **VARIABLES), 2)
    assert [place for place, text in _places(tmp_path, [said]) if SECRET in text] == []


def _places(folder: Path, said: list[Said]) -> Iterator[tuple[str, str]]:
    for number, each in enumerate(said):
        yield f"output {number}", each.out + each.err
    for kept in ("runs", "again", "cache"):
        for file in filter(Path.is_file, (folder / kept).rglob("*")):
            yield str(file), file.read_bytes().decode("latin-1")
