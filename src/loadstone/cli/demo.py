"""`loadstone demo`: a whole run without a server. A simulated engine is load-tested, and says afterwards what its latencies really were."""

import argparse
from typing import Any

DESCRIPTION = """\
Starts a simulated engine on a free port, load-tests it for about 15 seconds,
writes the result into a folder, stops the engine, and prints what the engine
itself knows of its latencies, beside what was measured from outside.
"""

RUN = {
    "model": "simulated",
    "label": "demo",
    "num_prompts": 200,
    "request_rate": 15,
    "random_input_len": 256,
    "random_output_len": 64,
    "random_range_ratio": 0.5,
    "ignore_eos": True,
    "ready_check_timeout_sec": 0,  # the engine is known to be up, and its truth then covers the same requests as the report
    "percentile_metrics": "ttft,tpot,itl,e2el",
    "metric_percentiles": "90,99",
    "goodput": {"ttft": 100, "tpot": 20},
    "save_result": True,
}


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("demo", help="load-test the simulated engine: a first run without a server", description=DESCRIPTION)
    parser.add_argument("--result-dir", metavar="DIR", default="results", help="where the result is written (default: results)")
    parser.add_argument("--num-prompts", metavar="N", type=int, default=RUN["num_prompts"], help="requests of the run (default: 200)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from loadstone.bench.serve import serve
    from loadstone.config import RunConfig
    from loadstone.simulator import running

    chosen = {"result_dir": args.result_dir, "num_prompts": args.num_prompts, "debug": args.debug}
    with running(model=RUN["model"]) as server:
        config = RunConfig.from_mapping({**RUN, **chosen, "base_url": server.url, "header": {}, "api_key": ""})
        code = int(serve(config, command=args.argv))
        truth = server.truth()
    print(truth_line(truth))
    return code


def truth_line(truth: dict[str, Any]) -> str:
    """What the engine knows of its own latencies, in the words of the report. A latency that it has no sample of is left out."""
    known = [(name, truth[f"{name.lower()}_ms"]) for name in ("TTFT", "ITL", "E2EL")]
    figures = ", ".join(f"mean {name} {spread['mean']:.2f} ms" for name, spread in known if spread)
    return f"The simulated engine's own clock says, over {truth['completed']} completed requests:\n  {figures or 'no latency'}"
