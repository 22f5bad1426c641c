"""The two C programs of the benchmarks, compiled into a folder of the caller's: a server that knows the truth, and the least possible client.

python benchmarks/build.py          see that they compile here
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = ("truth_server", "floor")


def build(folder: Path) -> dict[str, Path]:
    """Compile both into `folder`. Returns their paths by name; ends the program with a sentence where that cannot be."""
    if sys.platform != "linux":
        sys.exit("these benchmarks need Linux: their server and their floor client are built on epoll and timerfd")
    compiler = os.environ.get("CC") or next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), None)
    if compiler is None:
        sys.exit("these benchmarks need a C compiler: install one (Debian, Ubuntu: apt-get install gcc libc6-dev), or name it in CC")
    paths = {name: folder / name for name in PROGRAMS}
    for name, path in paths.items():
        done = subprocess.run([*compiler.split(), "-O2", "-o", path, HERE / f"{name}.c"], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{compiler} could not compile benchmarks/{name}.c:\n{done.stderr.strip()}")
    return paths


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        build(Path(scratch))
    print(f"{' and '.join(f'{name}.c' for name in PROGRAMS)} compile")
