# SPDX-License-Identifier: MIT
"""`python -m cleave` runs the command-line tool."""

from __future__ import annotations

import os
import sys
from pathlib import Path

tool = Path(__file__).resolve().parent / "_tool" / "cleave"


def main() -> int:
    """Runs the tool with the arguments of this process, in its place."""
    if not tool.exists():
        print("cleave: this package was built without the tool (CLEAVE_PYTHON_TOOL=OFF)", file=sys.stderr)
        return 2
    os.execv(tool, [str(tool), *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
