"""Starts the supervisor. Run by its path with `python -I -S`, so that nothing but this tree is imported."""

import os
import sys

if __name__ == "__main__":
    # Last, so that nothing installed next to the server can take the place of a module of Python's own.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))))
    from app.outside.sandbox.supervisor import main

    main()
