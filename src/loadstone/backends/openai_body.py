"""The fields that chat and completions requests have in common."""

from typing import Any

from loadstone.backends.base import Options


def fields(options: Options) -> dict[str, Any]:
    """Streaming, sampling (greedy unless a flag says otherwise), ignore_eos, use_beam_search."""
    body: dict[str, Any] = {"stream": options.stream}
    if options.stream:
        body["stream_options"] = {"include_usage": True}
        if options.continuous_usage:
            body["stream_options"]["continuous_usage_stats"] = True
    body |= {"temperature": 0, **options.sampling}
    if options.ignore_eos:
        body["ignore_eos"] = True
    if options.use_beam_search:
        body["use_beam_search"] = True
    return body
