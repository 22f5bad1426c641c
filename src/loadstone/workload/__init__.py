"""What to send: data sets and generators of prompts."""

from loadstone.workload.registry import load_workload, names, unused_path

__all__ = ["load_workload", "names", "unused_path"]
