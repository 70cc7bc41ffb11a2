"""Lets the environment that runs this see the packages of another one as well: the path of that one is the argument.

Packages of the environment itself come first. Run once, by `make install-extras`.
"""

import sys
import sysconfig
from pathlib import Path


def main() -> None:
    below = Path(sys.argv[1]).resolve()
    inside = Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    link = Path(sysconfig.get_path("purelib")) / "holdfast_below.pth"
    link.write_text(f"import site; site.addsitedir({str(below / inside)!r})\n")


if __name__ == "__main__":
    main()
