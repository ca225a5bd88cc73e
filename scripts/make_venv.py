"""make_venv.py FOLDER REQUIREMENTS: a virtual environment with the pinned packages.

FOLDER/ready is written last. Two builds may ask for the same folder at once: the second waits.
A folder that an earlier run left half made is completed.
"""

import fcntl
import subprocess
import sys
import venv
from pathlib import Path


def has_pip(python: Path) -> bool:
    if not python.exists():
        return False
    return subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode == 0


def main(folder: Path, requirements: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / f"{folder.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ready = folder / "ready"
        if ready.exists():
            return
        python = folder / "bin" / "python"
        if not has_pip(python):
            venv.create(folder, clear=True, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", requirements], check=True)
        ready.touch()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
