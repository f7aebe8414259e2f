"""``advisor cache``: what is in the cache, what goes, and what stays.

``_main.py`` registers the group. Without a command, the group itself shows the cache.
The names of kinds that ``clean`` takes, and the entries of ``--json``, are in scripts of users.
"""

import shlex
from dataclasses import asdict
from typing import Annotated

import typer

from advisor.cli._groups import Commands
from advisor.cli._options import AsJson, Quiet, RunArgument, argument, option
from advisor.cli._output import note, print_document, progress

cache_app = Commands.group(
    "cache",
    "Show what is in the cache, make room in it, and keep what a run used.",
    "Show, clean or keep the cache.",
)
cache_app.info.no_args_is_help = False
cache_app.info.invoke_without_command = True


@cache_app.callback()
def show(context: typer.Context, as_json: AsJson = False, quiet: Quiet = False) -> None:
    """Show what is in the cache by kind and by run, make room in it, and keep what a run used.

    Without a command, the cache is shown. Results can be computed again;
    downloads may need a network.

    Example: advisor cache
    """
    if context.invoked_subcommand is not None:
        return
    from advisor import api
    from advisor.reporting import print_cache

    if quiet:
        contents = api.cache()
    else:
        with progress("reading the cache"):
            contents = api.cache()
    if as_json:
        print_document(**contents.to_json())
    else:
        print_cache(contents)


@cache_app.command("clean", short_help="Remove the least recently used results.")
def clean(
    kinds: Annotated[
        list[str] | None, argument("KIND", "Remove everything of these kinds instead.")
    ] = None,
    cache_size: Annotated[
        str | None, option("SIZE", "Size to reach, such as 5GB. Default: the limit.")
    ] = None,
    everything: Annotated[bool, option("", "Remove all results that may go.", "--all")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove the least recently used results until the cache is within its limit.

    Results of running searches and of kept runs stay. Downloads (weights, packages, ...) go only
    if you name their kind, and while no search runs.

    Example: advisor cache clean --cache-size 5GB
    """
    from advisor import api

    with progress("cleaning the cache"):
        done = api.clean_cache(*(kinds or ()), size=cache_size, everything=everything)
    if as_json:
        print_document(cleaned=asdict(done))
    else:
        typer.echo(done.sentence)


@cache_app.command("keep", short_help="Keep what a run used.")
def keep(
    run: RunArgument,
    off: Annotated[bool, option("", "Let it go again.", "--off")] = False,
    as_json: AsJson = False,
) -> None:
    """Keep the results that a run used, so that no later search removes them.

    Example: advisor cache keep runs/latest
    """
    from advisor import api

    use = api.keep_run(run, keep=not off)
    if as_json:
        print_document(run=use.run, kept=use.kept, entries=len(use.keys))
        return
    future = "stay" if use.kept else "may go"
    typer.echo(f"{use.run}: {len(use.keys)} results {future}")
    if use.kept:
        note(f"let them go with: advisor cache keep {shlex.quote(run)} --off")
