"""How each metric is called in print: the heading of its section, and the words of its lines. Scripts search for these: they do not change."""

from typing import NamedTuple


class Label(NamedTuple):
    """`heading` of the section; lines are `Mean {line}:`. `short` is its name in a table."""

    heading: str
    line: str
    short: str


LABELS = {
    "ttft": Label("Time to First Token", "TTFT (ms)", "TTFT"),
    "s_ttft": Label("Infer Time to First Token", "S_TTFT (ms)", "S_TTFT"),
    "ttfot": Label("Time to First Output Token", "TTFOT (ms)", "TTFOT"),
    "tpot": Label("Time per Output Token (excl. 1st token)", "TPOT (ms)", "TPOT"),
    "itl": Label("Inter-token Latency", "ITL (ms)", "ITL"),
    "icl": Label("Inter-chunk Latency", "ICL (ms)", "ICL"),
    "s_itl": Label("Infer Inter-token Latency", "S_ITL (ms)", "S_ITL"),
    "e2el": Label("End-to-end Latency", "E2EL (ms)", "E2EL"),
    "s_e2el": Label("Infer End-to-end Latency", "S_E2EL (ms)", "S_E2EL"),
    "s_decode": Label("Decode (tok/s)", "Decode", "Decode tok/s"),
    "input_len": Label("Cached Tokens", "Cached Tokens", "Cached tokens"),
    "s_input_len": Label("Infer Input Length", "Input Length", "Input tokens"),
    "output_len": Label("Output Length", "Output Length", "Output tokens"),
}
"""In the order of print."""
