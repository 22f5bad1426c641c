"""SGLang's bench_serving (`--output-file`, JSON lines): it writes `e2e_latency` where others write `e2el`, and no count of failures.

E2EL runs to the last line of the stream, which carries usage or [DONE], so TPOT has the server's tail in it. ITL is per token on the native backend
and between chunks on the others. The duration of the run has a call to /server_info in it.
"""

from pathlib import Path
from typing import Any

from loadstone.compare.readers.keys import facts, figures_of, lengths_of, load_of, number, samples_of, totals_of
from loadstone.compare.run import Definition, Run

NAMES = {"ttft": "ttft_ms", "tpot": "tpot_ms", "itl": "itl_ms", "e2el": "e2e_latency_ms"}
NATIVE = ("sglang", "sglang-native")
DURATION = Definition("a second", "its duration has a call after the last reply in it")


def knows(document: dict[str, Any]) -> bool:
    return "request_throughput" in document and "mean_e2e_latency_ms" in document


def read(document: dict[str, Any], path: Path) -> Run:
    return Run(
        source=str(path),
        tool="SGLang bench_serving",
        figures=totals_of(document) | figures_of(document, NAMES),
        definitions={
            "ttft": Definition("first token"),
            "tpot": Definition("per token after the first", "the end of the stream counts for the last token"),
            "itl": Definition("gap between tokens" if document.get("backend") in NATIVE else "gap between events"),
            "e2el": Definition("to the end of the stream"),
            **dict.fromkeys(("requests", "output", "total"), DURATION),
        },
        facts=facts(
            model=_model(document),
            load=load_of(document),
            data=document.get("dataset_name"),
            lengths=lengths_of(document.get("completed"), document.get("total_input_tokens"), document.get("total_output_tokens")),
        ),
        samples=samples_of(document, per_token=False),
        seconds=number(document.get("duration")),
    )


def _model(document: dict[str, Any]) -> str | None:
    server = document.get("server_info")
    found = server.get("served_model_name") or server.get("model_path") if isinstance(server, dict) else None
    return found if isinstance(found, str) else None
