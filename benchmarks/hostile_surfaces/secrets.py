"""A secret in each address, option and variable: nothing that is shown or kept has it."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from benchmarks.hostile_surfaces.attempts import HANG
from benchmarks.hostile_surfaces.ground import SECRET, Case, Ground, found

HUSH = "Hush4"
FORMS = (
    "{scheme}://me:{hush}@127.0.0.1:9/x", "{scheme}://{hush}@127.0.0.1:9/x", "{scheme}://me:{hush}%40a@127.0.0.1:9/x",
    "{scheme}://me:{hush} a@127.0.0.1:9/x", "{scheme}://me:{hush}@a@127.0.0.1:9/x", "{scheme}://me:{hush}#a@127.0.0.1:9",
    "{scheme}://me:{hush}/a@127.0.0.1:9/x", "{scheme}://127.0.0.1:9/x?token={hush}", "{scheme}://127.0.0.1:9/x#access_token={hush}",
    "{scheme}://127.0.0.1:9/x?a=b&api_key={hush}&c=d", "{scheme}://[::1]:9/x?password={hush} a",
    "{scheme}://me:{hush}@[::1/x", "{scheme}://me:{hush}@127.0.0.1:99999999/x", "{scheme}:me:{hush}@127.0.0.1",
    "{upper}://me:{hush}@127.0.0.1:9/x", " {scheme}://me:{hush}@127.0.0.1:9/x", "{scheme}://me:{hush}@127.0.0.1\n:9",
    "{scheme}://127.0.0.1:9/x;password={hush}", "{scheme}://127.0.0.1:9/x?X-Amz-Signature={hush}",
)  # fmt: skip
TOKEN = 1
"""The form whose user is the secret."""
PLAN = ("plan", "--budget", "50ms", "--candidates", "squeezenet_1.1_227")
SEARCH = ("search", "--offline", *PLAN[1:], "--compressions", "float32", "--max-trials", "1", "--time-limit", "1s")
PLACES: Mapping[str, tuple[tuple[str, ...], Sequence[str], str]] = {
    "mirror of a plan": ((*PLAN, "--mirror"), ("http", "https", "ftp", "s3"), ""),
    "mirror of a search": ((*SEARCH, "--mirror"), ("http", "https", "ftp"), ""),
    "mirror of weights": (("catalog", "fetch", "squeezenet_1.1_227", "--offline", "--mirror"), ("http", "ftp"), ""),
    "storage": ((*SEARCH, "--storage"), ("postgresql", "mysql", "redis", "sqlite"), ""),
    "log": ((*SEARCH, "--log-to"), ("mlflow:http", "mlflow:postgresql", "wandb:http"), ""),
    "executor": ((*SEARCH, "--executor"), ("ray", "rey"), ""),
    "ADVISOR_MIRROR": (PLAN, ("http", "ftp"), "ADVISOR_MIRROR"),
    "PIP_INDEX_URL": (("catalog", "fetch", "squeezenet_1.1_227"), ("http",), "PIP_INDEX_URL"),
    "data": ((*PLAN, "--data"), ("http", "s3"), ""),
    "device": ((*PLAN, "--device"), ("ssh",), ""),
    "calibration": (("devices", "calibrate", "raspberry-pi-4", "--ssh"), ("ssh",), ""),
}
"""A command that ends with an address, or reads it from a variable; and the schemes."""


def cases(ground: Ground) -> Iterator[Case]:
    """Yield each place with each scheme and form."""
    for place, (command, schemes, variable) in PLACES.items():
        for scheme in schemes:
            for number, form in enumerate(FORMS):
                if number == TOKEN and not scheme.endswith(("http", "https")):
                    continue  # elsewhere it is the name of a user
                address = form.format(scheme=scheme, upper=scheme.upper(), hush=HUSH)
                given = {variable: address} if variable else {}
                arguments = command if variable else (*command, address)
                yield f"{place}, {scheme}, {number}", partial(_tried, ground, arguments, given)


def _tried(ground: Ground, arguments: Sequence[str], variables: Mapping[str, str]) -> Sequence[str]:
    place = ground.fresh()
    try:
        code, out, err = ground.said(place, *arguments, **variables)
    except TimeoutError:
        return (HANG,)
    kept = [file for folder in (place, ground.folder / "cache") for file in folder.rglob("*") if file.is_file()]
    texts = [out, err, *(str(file) for file in kept), *(file.read_bytes().decode("latin-1") for file in kept)]
    shown = any(HUSH in text for text in texts)
    return (*found(code, out, err), *((SECRET,) if shown else ()))
