"""Running a benchmark: the one room that knows all the others."""
