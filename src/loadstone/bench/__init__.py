"""Running a benchmark, from its configuration to its result: the one room that knows all the others.

run.py gives the numbers back, serve.py prints and saves them as `loadstone bench serve` does.
"""
