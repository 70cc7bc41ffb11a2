"""Process entry: `holdfast`, and `python -m app.main`."""

import sys


def main() -> None:
    if sys.platform == "win32":
        # Before anything of ours is imported: modules that only Unix has would fail with less clear words.
        sys.exit(
            "holdfast does not run on Windows itself, because it needs Unix file locks and process groups.\n"
            "Run it in WSL 2 or in the container (see docs/platforms.md)."
        )
    if sys.argv[1:2] == ["serve"]:
        from app.cli.root import app
    else:
        from app.cli.application import app
    from app.cli.named_command import named_command

    named_command(app, sys.argv[1:])()


if __name__ == "__main__":
    main()
