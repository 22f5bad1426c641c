"""What the verdicts of `loadstone compare` are worth: how often two runs alike are called different, and how large a run shows a shift of 5 %.

    nice python benchmarks/compare_level.py [--rounds 1000] [--requests 400 1000 4000] [--seed 1]

Pairs of runs are drawn from one distribution of latencies, as many rounds of them; then the same with the second run's latencies 5 % longer. Shapes:
lognormal (sigma 0.3), bimodal (nine in ten about 100, one in ten about 300), and autoregressive (lognormal with a memory of 0.7 from each request
to the next). `level`: share of single comparisons that chance alone showed, at 5 %. `table`: share of tables (mean, median, p90, p99) with any row
better or worse; this is what a reader meets, and Holm's method holds it at 5 % or less. `coverage`: of the 95 % intervals of the difference.
`found`: share of tables that called the 5 % longer mean, median and p99 worse. `median width`: of the interval of the p99, in per cent of it.
"""

import argparse
from collections.abc import Callable

import numpy as np

from loadstone.compare.difference import LEVEL, Difference, holm
from loadstone.compare.estimate import Estimate, Floats, Series, mean, percentile

Draw = Callable[[np.random.Generator, int], Floats]
SHIFT = 1.05


def lognormal(rng: np.random.Generator, n: int) -> Floats:
    return 100 * np.exp(0.3 * rng.standard_normal(n))


def bimodal(rng: np.random.Generator, n: int) -> Floats:
    return np.where(rng.random(n) < 0.1, 300.0, 100.0) * np.exp(0.1 * rng.standard_normal(n))


def autoregressive(rng: np.random.Generator, n: int, memory: float = 0.7) -> Floats:
    noise = rng.standard_normal(n) * np.sqrt(1 - memory**2)
    state = np.empty(n)
    last = rng.standard_normal()
    for i, step in enumerate(noise):
        last = memory * last + step
        state[i] = last
    return 100 * np.exp(0.3 * state)


SHAPES: dict[str, Draw] = {"lognormal": lognormal, "bimodal": bimodal, "autoregressive": autoregressive}
ROWS = ("mean", "median", "p90", "p99")


def estimates(values: Floats) -> list[Estimate]:
    series = Series(values)
    return [mean(series), *(percentile(series, p) for p in (50, 90, 99))]


def table(a: Floats, b: Floats) -> tuple[list[Difference], list[bool]]:
    """The rows of a comparison, and which of them are shown. A row without a p-value is not."""
    rows = [Difference(one, other) for one, other in zip(estimates(a), estimates(b), strict=True)]
    return rows, holm([1.0 if (p := row.p_value()) is None else p for row in rows])


def simulate(draw: Draw, n: int, rounds: int, seed: int) -> dict[str, float]:
    """The figures of one line of the table, as shares."""
    rng = np.random.default_rng(seed)
    single = together = covered = bounded = 0
    found = dict.fromkeys(ROWS, 0)
    widths = []
    for _ in range(rounds):
        a, b = draw(rng, n), draw(rng, n)
        rows, shown = table(a, b)
        single += sum(row.p_value() < LEVEL for row in rows)  # type: ignore[operator]
        together += any(shown)
        for row in rows:
            if (interval := row.interval()) is not None:
                bounded += 1
                covered += interval[0] <= 0 <= interval[1]
        if (interval := rows[-1].interval()) is not None:
            widths.append((interval[1] - interval[0]) / rows[-1].a.value)
        _, shown = table(a, SHIFT * draw(rng, n))
        for name, each in zip(ROWS, shown, strict=True):
            found[name] += each
    return {
        "level": single / rounds / len(ROWS),
        "table": together / rounds,
        "coverage": covered / max(bounded, 1),
        **{f"found {name}": count / rounds for name, count in found.items()},
        "width": float(np.median(widths)) if widths else float("nan"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--requests", type=int, nargs="+", default=[400, 1000, 4000])
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    print(f"{'':<16}{'requests':>9}{'level':>8}{'table':>8}{'coverage':>10}{'found: mean':>13}{'median':>8}{'p99':>7}{'median width of p99':>21}")
    for name, draw in SHAPES.items():
        for n in args.requests:
            found = simulate(draw, n, args.rounds, args.seed)
            print(
                f"{name:<16}{n:>9}{found['level']:>8.1%}{found['table']:>8.1%}{found['coverage']:>10.1%}{found['found mean']:>13.0%}"
                f"{found['found median']:>8.0%}{found['found p99']:>7.0%}{found['width']:>21.1%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
