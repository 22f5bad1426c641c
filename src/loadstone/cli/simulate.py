"""`loadstone simulate`: a simulated inference engine as a server."""

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

DESCRIPTION = """\
A simulated inference engine as a server: OpenAI chat and completions,
continuous batching, errors on demand. It knows when it sent every token: GET
/truth says what TTFT and ITL really were. No model and no GPU is needed; the
defaults are shaped like a model of 8 billion parameters on one H100."""

EXAMPLES = """\
examples:
  loadstone simulate                    listen on port 8000
  loadstone simulate --step-us 20000 --max-num-seqs 1000
                                        each of up to 1,000 streams gets a
                                        token every 20 ms exactly
  loadstone simulate --error-rate 0.02 --reset-rate 0.01 --seed 7
  curl -s localhost:8000/truth          what the latencies really were"""

# group -> (field of SimulatorOptions, help); type and default are the field's own
GROUPS: dict[str, tuple[tuple[str, str], ...]] = {
    "server": (
        ("host", "address to listen on"),
        ("port", "port to listen on; 0 takes a free one, the first line printed says which"),
        ("model", "name of the one model"),
        ("api_key", "refuse requests without `Authorization: Bearer KEY`"),
        ("max_model_len", "longest prompt and reply together, in tokens (default: 131072, or the KV cache if smaller)"),
        ("seed", "of everything that is drawn: words, lengths, errors"),
        ("until_stdin_closes", "end when standard input does, as well as on SIGINT and SIGTERM"),
    ),
    "engine": (
        ("max_num_seqs", "most requests running at once; the others queue"),
        ("kv_cache_tokens", "KV cache; a running request holds room for its prompt and its whole reply"),
        ("max_num_batched_tokens", "token budget of a step; longer prompts are prefilled in chunks"),
        ("step_base_ms", "time of a step, whatever is in it"),
        ("step_per_seq_us", "time that each sequence in the step adds"),
        ("prefill_tokens_per_s", "rate at which prompts are prefilled"),
        ("step_us", "steps of exactly this length instead, and prompts that cost nothing: the true ITL is then known"),
        ("prefix_cache", "prompts that begin alike are prefilled once; usage reports cached_tokens"),
    ),
    "replies": (
        ("default_max_tokens", "length of a reply whose request names none"),
        ("eos_probability", "chance of each token to be the last, unless the request says ignore_eos (0: replies are as long as asked)"),
        ("reasoning_tokens", "the first tokens of a chat reply come as reasoning_content"),
        ("tokens_per_event", "tokens of a step and event, as with speculative decoding"),
        ("server_times", "add FastDeploy's arrival_time to each event: seconds since the request was received"),
    ),
    "errors on demand (shares of all generation requests, 0 to 1)": (
        ("error_rate", "answered 503 with Retry-After"),
        ("reset_rate", "TCP reset in the middle of the reply"),
        ("stall_rate", "the reply stops for --stall-s and goes on"),
        ("truncate_rate", "connection closed in the middle of the reply, without a finish"),
        ("error_event_rate", "an error object in the middle of the stream"),
        ("stall_s", "length of a stall, in seconds"),
    ),
    "truth": (
        ("truth_requests", "most finished requests kept for GET /truth?requests=1; the sums cover all"),
        ("truth_sends", "keep the time of every event sent, too"),
    ),
}


def register(subparsers: "Subparsers") -> None:
    """Add the command to the main parser."""
    import msgspec

    from loadstone.simulator.options import SimulatorOptions

    parser = subparsers.add_parser(
        "simulate",
        help="run a simulated inference engine as a server",
        description=DESCRIPTION,
        epilog=EXAMPLES,
    )
    fields = {field.name: field for field in msgspec.structs.fields(SimulatorOptions)}
    for title, members in GROUPS.items():
        group = parser.add_argument_group(title)
        for name, text in members:
            _add(group, name, text, fields[name])
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted. Returns 0; raises UsageError for options that cannot be."""
    from loadstone.simulator.options import SimulatorOptions
    from loadstone.simulator.server import serve

    serve(SimulatorOptions(**{name: getattr(args, name) for name in SimulatorOptions.__struct_fields__}))
    return 0


def _add(group: Any, name: str, text: str, field: Any) -> None:
    flag = "--" + name.replace("_", "-")
    if field.type is bool:
        group.add_argument(flag, action="store_true", help=text)
        return
    kind = next(kind for kind in (int, float, str) if field.type in (kind, kind | None))
    shown = "" if field.default is None else " (default: %(default)s)"
    metavar = {int: "N", float: "X", str: name.rsplit("_", maxsplit=1)[-1].upper()}[kind]
    group.add_argument(flag, type=kind, default=field.default, metavar=metavar, help=text + shown)
