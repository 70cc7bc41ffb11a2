"""Process entry: `holdfast`, and `python -m app.main`."""

from app.cli.application import app


def main() -> None:
    app()


if __name__ == "__main__":
    main()
