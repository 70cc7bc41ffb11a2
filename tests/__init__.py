"""Tests of Holdfast. Hundreds of processes start here, and each would compile everything that has no bytecode."""

import os
import sys

sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
