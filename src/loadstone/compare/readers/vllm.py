"""vllm bench serve, in Python and in Rust (`--save-result`), and fastdeploy bench serve, an older fork of it.

Its first token is the first chunk: of a chat stream the chunk that only names the role, hence another kind of TTFT (and of TPOT, which begins there).
Of a completions stream it is the first text, unless the server sends empty chunks. Its last token may be the chunk that only says why the reply
ended. Its ITL is between chunks, its standard deviation and percentiles as numpy has them. FastDeploy has `request_goodput:` with a colon.
"""

from pathlib import Path
from typing import Any

from loadstone.compare.readers.keys import facts, figures_of, lengths_of, load_of, number, samples_of, totals_of
from loadstone.compare.run import Definition, Run

COLON = "request_goodput:"
NAMES = {name: f"{name}_ms" for name in ("ttft", "tpot", "itl", "e2el", "s_ttft", "s_itl", "s_e2el")} | {
    name: name for name in ("s_decode", "input_len", "s_input_len", "output_len")
}
LAST = "a last chunk without text counts too"


def knows(document: dict[str, Any]) -> bool:
    return "request_throughput" in document and any(f"mean_{name}_ms" in document for name in ("ttft", "tpot", "itl", "e2el"))


def definitions(chat: bool) -> dict[str, Definition]:
    return {
        "ttft": Definition("first chunk, whatever it holds") if chat else Definition("first token", "an empty first chunk counts too"),
        "tpot": Definition("per token after the first chunk") if chat else Definition("per token after the first", LAST),
        "itl": Definition("gap between events and the chunk of the role") if chat else Definition("gap between events", LAST),
        "e2el": Definition("to the last token", LAST),
    }


def read(document: dict[str, Any], path: Path) -> Run:
    endpoint = str(document.get("endpoint_type") or document.get("backend") or "")
    fastdeploy = COLON in document or any(key.startswith("mean_s_") for key in document)
    chat = fastdeploy or "chat" in endpoint
    return Run(
        source=str(path),
        tool="fastdeploy bench serve" if fastdeploy else "vllm bench serve",
        figures=totals_of(document, COLON if COLON in document else "request_goodput") | figures_of(document, NAMES),
        definitions=definitions(chat),
        facts=facts(
            model=document.get("model_id"),
            load=load_of(document),
            lengths=lengths_of(document.get("completed"), document.get("total_input_tokens"), document.get("total_output_tokens")),
        ),
        samples=samples_of(document),
        seconds=number(document.get("duration")),
    )
