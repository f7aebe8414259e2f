"""Speak to a store of objects (S3, Google Cloud Storage) through fsspec, and distrust its answers.

``stores.py`` lists and copies with a :class:`Store`. The packages for a store are an extra, and
their answers are watched from inside: a listing that repeats itself would never end, and an object
that changes while it is read would be half of each version. To add a store, write a line in
:data:`STORES` and a method that watches its package.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from itertools import chain
from typing import Any

from advisor.core import UsageError, nearest, without_password
from advisor.store._downloads.store_kind import StoreKind
from advisor.store._files import sha256_json

_LONGEST_NAME = 255  # Bytes, of most file systems
_ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "STORAGE_EMULATOR_HOST")
# What tells the content of an object, best first.
_VERSIONS = ("ETag", "etag", "generation", "LastModified", "updated")
_DENIED = re.compile(r"credential|forbidden|access ?denied|\b40[13]\b|token", re.IGNORECASE)

Objects = Mapping[str, tuple[int, str]]
"""Size in bytes and version of each object, by its path in the copy."""

STORES: Mapping[str, StoreKind] = {
    "s3": StoreKind(
        "s3fs",
        "S3FileSystem",
        "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, of a user who may list"
        " and read the bucket; for a public bucket: FSSPEC_S3_ANON=true",
    ),
    "gs": StoreKind(
        "gcsfs.core",
        "GCSFileSystem",
        "set GOOGLE_APPLICATION_CREDENTIALS, or run gcloud auth application-default login, of a"
        " user who may list and read the bucket; for a public bucket: FSSPEC_GS_TOKEN=anon",
    ),
}
"""The stores that are read, by how their addresses begin."""


class StoreChangedError(Exception):
    """An object has another version than its listing says."""


class ListingError(Exception):
    """A store lists for ever."""


class ListingPages:
    """The pages of one listing, which must end.

    A store that repeats how a page goes on, or the last key of a page, would never end.
    """

    def __init__(self) -> None:
        self._ends = set[str]()

    def add_page(self, following: object, last_key: object) -> None:
        """Note how the next page is asked for, and the last key of a page that is not the last.

        Raises ListingError if an earlier page had one of them.
        """
        marks = {f"next {following}", f"key {last_key}"}
        if marks & self._ends:
            raise ListingError("it repeats a page of its listing")
        self._ends |= marks


@dataclass
class _Expected:
    """The entry of a listing, with which the answers that follow are compared."""

    pages: ListingPages = field(default_factory=ListingPages)  # of the listing under way
    # Size and version of each object that is being fetched, by its name in the store.
    objects: dict[str, tuple[int, str]] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)  # ETag of each object


@dataclass(frozen=True)
class Store:
    """The objects that one address names, in one store."""

    kind: str  # key of :data:`STORES`
    place: str  # bucket and path, as fsspec has them

    @property
    def root(self) -> str:
        """The last name of the address, under which a copy has the objects."""
        return self.place.rpartition("/")[2]

    @property
    def stage(self) -> str:
        """The name of the copies in the cache."""
        # Another endpoint is another store, even if its address is the same.
        endpoints = map(os.environ.get, _ENDPOINTS)
        return f"objects-{sha256_json([self.kind, self.place, *endpoints])[:16]}"

    @cached_property
    def system(self) -> Any:
        """The file system of fsspec, with the credentials of the environment.

        Every answer of it is compared with the listing.
        """
        client = STORES[self.kind]
        system = getattr(import_module(client.module), client.name)(skip_instance_cache=True)
        watch = {"s3": self._watch_s3, "gs": self._watch_google}[self.kind]
        watch(system)
        return system

    @cached_property
    def _expected(self) -> _Expected:
        return _Expected()

    def _watch_s3(self, system: Any) -> None:
        events = system.s3.meta.events

        def remember_key(params: Mapping[str, Any], context: dict[str, Any], **_: object) -> None:
            context["object"] = f"{params.get('Bucket')}/{params.get('Key')}"

        def require_version(
            parsed: Mapping[str, Any], context: Mapping[str, Any], **_: object
        ) -> None:
            name = context.get("object")
            if name not in self._expected.objects:
                return
            size, _version = self._expected.objects[name]
            whole = str(parsed.get("ContentRange", "")).rpartition("/")[2]
            tag = parsed.get("ETag")
            # Where the listing has no ETags,
            # the first answer says which version the others must be of.
            if tag and self._expected.tags.setdefault(name, tag).strip('"') != tag.strip('"'):
                raise StoreChangedError("the store sends another version of it")
            if whole.isdecimal() and int(whole) != size:
                raise StoreChangedError(f"the store lists {size} bytes, and has {whole}")

        def look_at_page(parsed: Mapping[str, Any], **_: object) -> None:
            if parsed.get("IsTruncated"):
                rows = parsed.get("Contents") or parsed.get("CommonPrefixes") or [{}]
                last = rows[-1].get("Key") or rows[-1].get("Prefix")
                self._expected.pages.add_page(parsed.get("NextContinuationToken"), last)

        events.register("before-parameter-build.s3.GetObject", remember_key)
        events.register("after-call.s3.GetObject", require_version)
        events.register("after-call.s3.ListObjectsV2", look_at_page)

    def _watch_google(self, system: Any) -> None:
        ask = system._call

        async def look_at_page(*arguments: Any, **options: Any) -> Any:
            answer = await ask(*arguments, **options)
            if isinstance(answer, dict) and answer.get("nextPageToken") is not None:
                rows = answer.get("items") or [{}]
                self._expected.pages.add_page(answer["nextPageToken"], rows[-1].get("name"))
            return answer

        system._call = look_at_page

    def name_object(self, name: str) -> str:
        """Return an object as fsspec names it, by its path in the copy."""
        return f"{self.place.removesuffix(self.root)}{name}"

    def show_address(self, name: str = "") -> str:
        """Return the address for people, or that of one object."""
        return without_password(f"{self.kind}://{self.name_object(name) if name else self.place}")

    def list_objects(self) -> tuple[Objects, Sequence[str]]:
        """Return the objects, and the names that can be no files of a folder.

        Hidden objects are left out. Raises UsageError if there are none, or the store refuses.
        """
        try:
            self._expected.pages = ListingPages()
            self.system.invalidate_cache()
            listing = self.system.find(self.place, detail=True)
        except Exception as error:  # each store has its own errors
            raise self.describe_refusal(error) from None
        self._expected.tags = {}
        for name, facts in listing.items():
            if facts.get("ETag"):
                self._expected.tags[name] = facts["ETag"]
        above = len(self.place) - len(self.root)
        files = {}
        for name, facts in listing.items():
            if not name.endswith("/"):
                files[name[above:]] = facts
        folders = set(chain.from_iterable(map(_list_folders_above, files)))
        objects = {}
        bad = []
        for name, facts in sorted(files.items()):
            parts = name.split("/")
            size = int(facts["size"])
            # A store may have an object `a` beside `a/b`, and a folder cannot.
            if name in folders or size < 0 or not all(map(_is_name, parts)):
                bad.append(name)
            elif not any(part.startswith(".") for part in parts):
                objects[name] = (size, _find_version(facts))
        if not objects:
            raise self.describe_refusal(FileNotFoundError())
        return objects, bad

    def require_versions(self, objects: Objects) -> None:
        """Refuse other versions of objects than these, where the store says which it sends."""
        self._expected.objects = {self.name_object(name): facts for name, facts in objects.items()}
        # Each object has attempts of our own, and those of the package multiply them.
        self.system.retries = 1

    def describe_refusal(self, error: Exception, name: str = "") -> UsageError:
        """Return the error to raise where the store does not give the objects, or one of them."""
        what = f"--data: '{self.show_address(name)}'"
        kind = type(error).__name__
        message = describe_error(error)
        if isinstance(error, FileNotFoundError):
            return UsageError(
                f"{what} names no object", f"check the address{self._suggest_nearest()}"
            )
        if isinstance(error, PermissionError) or _DENIED.search(f"{kind} {message}"):
            return UsageError(
                f"{what} is refused by the store: {message}", STORES[self.kind].credentials
            )
        hint = (
            "check the connection, and run the command again: what has arrived is not fetched"
            " again"
        )
        return UsageError(f"{what} cannot be read: {message}", hint)

    def _suggest_nearest(self) -> str:
        with suppress(Exception):  # not everybody may list what is above
            above = self.system.ls(self.place.removesuffix(self.root).rstrip("/"), detail=False)
            return nearest(self.root, [str(path).rstrip("/").rpartition("/")[2] for path in above])
        return ""


def describe_error(error: Exception) -> str:
    """Return what went wrong with the connection, or what the store says."""
    kind = type(error)
    # The packages of a store are there only where it is read.
    names = {base.__name__ for base in kind.__mro__}
    if isinstance(error, TimeoutError) or any("Timeout" in name for name in names):
        return "no answer in time"
    if "HTTPClientError" in names:
        return "the connection failed"
    if kind.__module__.startswith("aiohttp"):
        is_cut = "Payload" in kind.__name__
        return "the answer ends too early" if is_cut else "the connection failed"
    return without_password(" ".join(str(error).split())[:300]) or kind.__name__


def _list_folders_above(name: str) -> Iterator[str]:
    """Yield the folders that an object is in, from the outer one to the inner one."""
    parts = name.split("/")
    for depth in range(1, len(parts)):
        yield "/".join(parts[:depth])


def _is_name(part: str) -> bool:
    """Return whether a part of the name of an object can be the name of a file or folder."""
    if part in ("", ".", "..") or "\0" in part:
        return False
    return len(part.encode(errors="replace")) <= _LONGEST_NAME


def _find_version(facts: Mapping[str, Any]) -> str:
    """Return what tells one content of an object from another; empty if the store says nothing."""
    return next((str(facts[name]) for name in _VERSIONS if facts.get(name)), "")
