"""loadstone's own result file. Its definitions (docs/metrics.md) are those that the other readers' are held against."""

from pathlib import Path
from typing import Any

from loadstone.compare.readers.keys import facts, figures_of, flag_of, lengths_of, load_of, number, samples_of, totals_of
from loadstone.compare.run import MS_METRICS, Definition, Run

LENGTHS = ("s_decode", "input_len", "s_input_len", "output_len")
PER_TOKEN, PER_CHUNK = Definition("gap between tokens"), Definition("gap between events")
DEFAULT_SEED, DEFAULT_DATA = "0", "random"


def knows(document: dict[str, Any]) -> bool:
    return "loadstone_version" in document


def definitions(itl_basis: Any) -> dict[str, Definition]:
    """What loadstone means by the metrics that tools differ on."""
    return {
        "ttft": Definition("first token"),
        "tpot": Definition("per token after the first"),
        "itl": PER_TOKEN if itl_basis == "token" else PER_CHUNK,
        "icl": PER_CHUNK,
        "e2el": Definition("to the last token"),
    }


def read(document: dict[str, Any], path: Path) -> Run:
    command = document.get("command") or None
    goodput = document.get("goodput") or {}
    names = {name: f"{name}_ms" for name in MS_METRICS} | {name: name for name in LENGTHS}
    return Run(
        source=str(path),
        tool=f"loadstone {document['loadstone_version']}",
        figures=totals_of(document) | {name: each for name, each in figures_of(document, names).items() if document.get(f"n_{name}") != 0},
        definitions=definitions(document.get("itl_basis")),
        facts=facts(
            model=document.get("model_id"),
            load=load_of(document),
            data=command and (flag_of(command, "--dataset-name") or DEFAULT_DATA),
            lengths=lengths_of(document.get("completed"), document.get("total_input_tokens"), document.get("total_output_tokens")),
            seed=command and (flag_of(command, "--seed") or DEFAULT_SEED),
        ),
        samples=samples_of(document),
        seconds=number(document.get("duration")),
        slos=", ".join(f"{name} {limit:g}" for name, limit in sorted(goodput.get("slos_ms", {}).items())),
    )
