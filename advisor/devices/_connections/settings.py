"""The settings of a connection to a device, as a profile or the options of a command state them.

Commands and searches hold these values and call :meth:`ConnectionSettings.connect` late. The
fields that a profile may have are keys of its ``connection`` (``_profiles/schema.py``). What may
be sent to a cloud is never one of them: every command needs the user's word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.core import AdvisorError, UsageError, plural, show_bytes, units

if TYPE_CHECKING:
    from advisor.devices._connections.protocol import Connection, Presence

HERE = "here"
"""The way of this machine itself. Options can name it;
a profile cannot, because others may read it elsewhere.
"""

CLOUD_LIMIT_S = 1800.0
"""Seconds that a device of a cloud may take for one file if the user states no other limit,
its queue included.
"""


@dataclass(frozen=True)
class Upload:
    """The leave to send files and images to a device cloud, and how long it may take."""

    files: bool = False  #: model files
    images: Path | None = None  #: folder of images, whose answers are compared; None for none
    limit_s: float = CLOUD_LIMIT_S  #: seconds that one file may take, the cloud's queue included


@dataclass(frozen=True)
class ConnectionSettings:
    """The connection to a device: over ssh, over adb, in a device cloud, or here."""

    #: what connects: a key of :data:`advisor.devices._connections.ways.WAYS`, or :data:`HERE`
    way: str = ""
    #: what the way leads to, such as ``user@host``, a serial, or the name of a cloud's device
    address: str = ""
    port: int | None = None  #: port for ssh, None for that of the ssh configuration
    python: str = "python3"  #: Python interpreter on the device, for ssh
    benchmark_model: Path | None = None  #: the binary for the phone, for adb
    cores: str = ""  #: hexadecimal mask of the cores to pin it to, for adb
    #: what may be sent to a cloud. A profile never says it: each command needs the user's word
    upload: Upload = field(default=Upload(), repr=False)

    @property
    def here(self) -> bool:
        """True if the device is this machine."""
        return self.way == HERE

    @property
    def in_cloud(self) -> bool:
        """True if the device is in a cloud,
        which runs several files at once and may let them wait for hours.
        """
        from advisor.devices._connections.clouds import CLOUD_NAMES

        return self.way in CLOUD_NAMES

    @staticmethod
    def names_cloud(selector: str) -> bool:
        """Return whether the name of a device, such as ``aihub:Samsung Galaxy S24``,
        begins with that of a cloud.
        """
        from advisor.devices._connections.clouds import split_selector

        return split_selector(selector)[0] != ""

    @classmethod
    def from_options(
        cls,
        ssh: str = "",
        adb: str = "",
        here: bool = False,
        python: str = "python3",
        benchmark_model: str | Path | None = None,
        cores: str = "",
    ) -> ConnectionSettings | None:
        """Return the settings that these options describe, or None if they name no connection.

        UsageError if they name several connections, or what only adb needs.
        """
        addresses = {"ssh": ssh, "adb": adb, HERE: HERE if here else ""}
        stated = [(way, address) for way, address in addresses.items() if address]
        if len(stated) > 1:
            named = " and ".join(f"--{way}" for way, _ in stated)
            raise UsageError(
                f"the connection is not clear: {named} are given", "leave out all but one of them"
            )
        if stated:
            way, address = stated[0]
            binary = Path(benchmark_model) if benchmark_model else None
            return cls(way, address, python=python, benchmark_model=binary, cores=cores)
        if benchmark_model or cores:
            raise UsageError(
                "--benchmark-model and --cores need --adb",
                "name the phone by its serial: --adb SERIAL",
            )
        return None

    def allow_upload(self, options: Mapping[str, Any]) -> ConnectionSettings:
        """Return the settings with what may be sent to a cloud;
        those of another device stay as they are.

        The ``options`` are :class:`.UploadOptions` as the user gives them, an absent
        one as None or empty. UsageError if images may be sent without files, or the folder of the
        images does not exist.
        """
        if not self.in_cloud:
            return self
        images = options["upload_images"]
        limit = options["cloud_limit"]
        folder = Path(images) if images else None
        if folder is not None and not options["upload"]:
            raise UsageError(
                "--upload-images needs --upload: the cloud runs a file on the images",
                "add --upload",
            )
        if folder is not None and not folder.is_dir():
            raise UsageError(
                f"--upload-images: '{folder}' is not a folder",
                "name a folder with at most 100 images",
            )
        limit_s = units.parse_seconds(limit, "--cloud-limit") if limit else CLOUD_LIMIT_S
        return replace(self, upload=Upload(bool(options["upload"]), folder, limit_s))

    def require_leave(self, files: Sequence[str | Path] = (), threads: int = 1) -> None:
        """Refuse to send files to a cloud without leave:
        UsageError with their number and bytes, where they are known.

        ``threads`` is the number of thread counts: a file is sent for each.
        It may be sent to any other device.
        """
        from advisor.devices._connections.clouds import cloud_named

        if not self.in_cloud or self.upload.files:
            return
        count = len(files) * threads
        size = threads * sum(path.stat().st_size for path in map(Path, files) if path.is_file())
        what = "model files"
        if files:
            what = f"{plural(count, 'file')} of {show_bytes(size)} in all ({size:,} bytes)"
        raise UsageError(
            f"{what} would be sent to {cloud_named(self.way).title}; no image would be",
            "allow it with --upload, or name the device without its cloud for a prediction",
        )

    def ask(self) -> Presence:
        """Return whether the device is there, what its latencies depend on,
        and settings that lead to this very one.

        UsageError if several phones are attached and none is named.
        """
        from advisor.devices._connections.attached import SeveralAttached
        from advisor.devices._connections.protocol import Presence
        from advisor.devices._connections.ways import WAYS

        try:
            return WAYS[self.way].ask(self)
        except SeveralAttached:
            raise
        except AdvisorError as error:
            return Presence(self, missing=error.message)

    def connect(self, accelerator: str = "cpu") -> Connection:
        """Return the connection to a target of this kind; it does not contact the device yet.

        UsageError if the settings name no connection or one that is not valid,
        or if it cannot measure this kind.
        """
        # The modules that connect are imported here:
        # the command line reads settings, and must start fast.
        from advisor.devices._connections.host import connect_here
        from advisor.devices._connections.ways import WAYS

        if self.here:
            return connect_here(accelerator)
        if self.way not in WAYS:
            raise UsageError(
                "the connection is not clear", f"give one of {', '.join((*WAYS, HERE))}"
            )
        return WAYS[self.way].connect(self, accelerator)
