"""Download from model hubs over HTTP, as their own clients do."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote, urlsplit

from advisor.catalog.cards import WeightSource
from advisor.catalog.weights.delivery import fetch_archive, fetch_file, home_transport, refuse_offline, require_hashes
from advisor.catalog.weights.network.transport import reach
from advisor.catalog.weights.options import FetchOptions


class TensorFlowHub:
    """A handle of TF Hub (Kaggle now): asked in the right form, it answers with a SavedModel as a tar.gz.

    The protocol is in tensorflow.org/hub/hosting: one GET with ``tf-hub-format=compressed``, redirects followed.
    """

    def obtain(self, source: WeightSource, folder: Path, options: FetchOptions) -> None:
        refuse_offline(options)
        joint = "&" if urlsplit(source.url).query else "?"
        with reach(source.url, home_transport()) as client:
            fetch_archive(client, f"{source.url}{joint}tf-hub-format=compressed", source, folder, options)


class HuggingFace:
    """A file of a repository at a revision; ``HF_ENDPOINT`` names another hub, ``HF_TOKEN`` opens what is gated.

    The token goes to the hub alone: not to where it redirects, not into a message.
    """

    def obtain(self, source: WeightSource, folder: Path, options: FetchOptions) -> None:
        refuse_offline(options)
        require_hashes(source)
        endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/") or "https://huggingface.co"
        token = os.environ.get("HF_TOKEN", "").strip()
        tokens = ((f"{endpoint.partition(':')[2]}/", token),) if token else ()
        base = f"{endpoint}/{source.package}/resolve/{quote(source.version, safe='')}"
        with reach(endpoint, home_transport(tokens)) as client:
            for member in (source.file, *source.companions):
                fetch_file(client, f"{base}/{quote(member.path)}", member, folder / member.name, options)
