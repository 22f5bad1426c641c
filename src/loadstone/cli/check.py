"""`loadstone check`: can this machine's client measure such a load truly? To be asked before a campaign."""

import argparse
import sys

DESCRIPTION = """\
Runs a load against the simulated server on this machine and compares what was
measured with what was true, request by request. Says whether the error of p99
TTFT stays within a limit, and finds the largest load at which it does."""

EPILOG = """\
examples:
  loadstone check --concurrency 500
                                        500 streams of 50 tokens/s each
  loadstone check --request-rate 20 --output-len 200
                                        arrivals in an open loop
  loadstone check --find --limit-ms 0.5
                                        the most streams within half a
                                        millisecond

exit codes: 0 the load is within the limit, 99 it is beyond or could not be
shown to be within, 2 bad usage, 130 interrupted. It takes two to three seconds
more than --duration, and about --budget-time with --find."""


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "check", help="test whether the client on this machine can measure a load truly", description=DESCRIPTION, epilog=EPILOG
    )
    load = parser.add_argument_group("load")
    load.add_argument("--concurrency", type=int, metavar="N", help="streams at once, without pause; with a rate, the cap (default: 100)")
    load.add_argument("--request-rate", type=float, metavar="RPS", help="arrivals per second, Poisson, in place of streams without pause")
    load.add_argument("--tokens-per-second", type=float, default=50.0, metavar="T", help="tokens per second of each stream (default: 50)")
    load.add_argument("--output-len", type=int, metavar="N", help="tokens of a reply (default: 128, fewer in a short check)")
    load.add_argument("--duration", type=float, default=10.0, metavar="S", help="seconds of load, whole replies (default: 10)")
    client = parser.add_argument_group("client")
    client.add_argument("--workers", type=int, metavar="N", help="processes that send and receive (default: as in bench serve)")
    client.add_argument(
        "--clock", default="auto", metavar="WHICH", help="auto: the kernel's receive stamps where there are any; user (default: auto)"
    )
    judgement = parser.add_argument_group("judgement")
    judgement.add_argument("--limit-ms", type=float, default=1.0, metavar="MS", help="error of p99 TTFT that is tolerated (default: 1)")
    judgement.add_argument("--find", action="store_true", help="find the most streams within the limit, beginning with --concurrency")
    judgement.add_argument("--budget-time", type=float, default=120.0, metavar="S", help="seconds that --find may take (default: 120)")
    judgement.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    import msgspec

    from loadstone.bench.check import check, exit_code, exit_code_of_search, find, tell_progress
    from loadstone.bench.check_load import CheckLoad
    from loadstone.bench.check_page import found_page, page
    from loadstone.report.live import Live

    load = CheckLoad(
        concurrency=args.concurrency,
        request_rate=args.request_rate,
        tokens_per_second=args.tokens_per_second,
        output_len=args.output_len,
        duration_s=args.duration,
        workers=args.workers,
        clock=args.clock,
        limit_ms=args.limit_ms,
    )
    live = Live(sys.stderr, enabled=sys.stderr.isatty())
    try:
        if args.find:
            found = find(load, args.budget_time, live=live, tell=tell_progress)
            print(msgspec.json.encode(found).decode() if args.json else found_page(found))
            return exit_code_of_search(found, args.concurrency)
        report = check(load, live=live)
    finally:
        live.close()
    print(msgspec.json.encode(report).decode() if args.json else page(report))
    return exit_code(report.verdict)
