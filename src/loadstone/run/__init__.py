"""Running a benchmark: the one room that knows all the others.

`run(config)` gives the numbers back; `serve(config)` prints and saves them as `loadstone bench serve` does.
"""

from loadstone.run.bench import Result, run
from loadstone.run.serve import serve

__all__ = ["Result", "run", "serve"]
