"""The command ``advisor``, also as ``python -m advisor``."""

import sys


def main() -> None:
    """Run the command; an interrupt while it starts ends it with 130, as later ones do,
    and without a traceback.
    """
    try:
        from advisor.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
