"""Print what must be known before a module is changed: room, callers, versions, tests.

python -m tools.about advisor/compression/_quantization/correction.py
python -m tools.about compression/_quantization     # each module of a folder

Callers are those that import a module, name it in a text, or call a method on a value whose type
is read from annotations. Methods of a value without a known type are not found.
"""

import argparse

from tools.about import describe_module, find_modules, read_tree


def main() -> None:
    """Print what is known of the modules that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="+", help="modules or folders of the package")
    arguments = parser.parse_args()
    tree = read_tree()
    paragraphs = []
    for path in arguments.paths:
        names = find_modules(path, tree)
        if not names:
            parser.error(f"'{path}' is no module or folder of the package")
        paragraphs.extend("\n".join(describe_module(name, tree)) for name in names)
    print("\n\n".join(paragraphs))


if __name__ == "__main__":
    main()
