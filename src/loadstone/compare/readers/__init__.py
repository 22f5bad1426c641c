"""Readers of result files, one a tool: each knows its own file by the keys in it, and turns it into a Run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from loadstone.compare.readers import aiperf, evalscope, guidellm, loadstone_result, sglang, vllm
from loadstone.compare.run import Run

Document = dict[str, Any]


class Reader(NamedTuple):
    tool: str
    knows: Callable[[Document], bool]
    read: Callable[[Document, Path], Run]


READERS = (
    Reader("loadstone", loadstone_result.knows, loadstone_result.read),
    Reader("SGLang bench_serving", sglang.knows, sglang.read),
    Reader("vllm bench serve or fastdeploy bench serve", vllm.knows, vllm.read),
    Reader("AIPerf", aiperf.knows, aiperf.read),
    Reader("GuideLLM", guidellm.knows, guidellm.read),
    Reader("evalscope perf", evalscope.knows, evalscope.read),
)
"""The first that knows a document reads it."""
