"""What to type for the programs of this environment, in messages that name a command."""

import os
import shlex
import shutil
import sys
from pathlib import Path


def program_command(name: str) -> str:
    """What a shell is given to start a program of this environment.

    Its name where the shell finds this one by it; else its path, in a clone `.venv/bin/pike`.
    """
    own = Path(sys.executable).with_name(name)
    found = shutil.which(name)
    if not own.exists() or (found and Path(found).resolve() == own.resolve()):
        return name
    near = os.path.relpath(own)
    return shlex.quote(str(own) if near.startswith(os.pardir) else near)
