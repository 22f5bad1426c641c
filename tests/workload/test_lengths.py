"""--isl-osl: mixtures of lengths, against scipy's distributions and against what is worked out by hand."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]

from loadstone.errors import UsageError
from loadstone.workload.lengths import mix_of

N = 20_000


def test_fixed_lengths_by_weight() -> None:
    inputs, outputs = mix_of("1024:128@70, 8192:1024@30").draw(N, seed=1)
    assert set(zip(inputs.tolist(), outputs.tolist(), strict=True)) == {(1024, 128), (8192, 1024)}
    assert stats.binomtest(int((inputs == 1024).sum()), N, 0.7).pvalue > 1e-4


def test_without_weights_all_kinds_are_alike() -> None:
    inputs, _ = mix_of("1:1,2:1,3:1").draw(N, seed=1)
    assert stats.chisquare(np.bincount(inputs)[1:]).pvalue > 1e-4


def test_even_lengths_reach_both_ends() -> None:
    inputs, outputs = mix_of("3-6:10").draw(N, seed=2)
    assert stats.chisquare(np.bincount(inputs)[3:]).pvalue > 1e-4
    assert (inputs.min(), inputs.max()) == (3, 6)
    assert set(outputs.tolist()) == {10}


@pytest.mark.parametrize(
    ("text", "law"),
    [
        ("normal(500,50)", stats.norm(500, 50)),
        ("exponential(400)", stats.expon(scale=400)),
        # mean 1000 and standard deviation 500: sigma^2 = ln(1 + 0.25), mu = ln(1000) - sigma^2 / 2
        ("lognormal(1000,500)", stats.lognorm(np.sqrt(np.log(1.25)), scale=1000 / np.sqrt(1.25))),
    ],
)
def test_distributions_are_those_they_are_named_after(text: str, law: "stats.rv_frozen") -> None:
    drawn, _ = mix_of(f"{text}:1").draw(N, seed=3)
    noise = np.random.default_rng(0).random(N) - 0.5  # undoes the rounding, for a test of a continuous law
    assert stats.kstest(drawn + noise, law.cdf).statistic < 0.015
    assert drawn.mean() == pytest.approx(law.mean(), rel=0.02)
    assert drawn.std() == pytest.approx(law.std(), rel=0.03)


def test_a_cut_distribution_is_a_conditional_one() -> None:
    drawn, _ = mix_of("normal(100,50,90,120):1").draw(N, seed=4)
    assert (drawn.min(), drawn.max()) == (90, 120)
    law = stats.norm(100, 50)
    shares = np.diff(law.cdf(np.arange(89.5, 121.5)))
    assert stats.chisquare(np.bincount(drawn)[90:], N * shares / shares.sum()).pvalue > 1e-4


def test_the_first_requests_do_not_depend_on_how_many_follow() -> None:
    mix = mix_of("normal(100,30):exponential(50)@2,7:9@1")
    few, many = mix.draw(10, seed=5), mix.draw(1000, seed=5)
    assert few[0].tolist() == many[0][:10].tolist()
    assert few[1].tolist() == many[1][:10].tolist()


def test_pairs_of_a_file_stay_together_and_weigh_what_they_say(tmp_path: Path) -> None:
    file = tmp_path / "lengths.csv"
    file.write_text("\ufeffInput_Tokens,output_tokens,weight\r\n10,1,3\r\n20,2,1\r\n", encoding="utf-8")
    inputs, outputs = mix_of(str(file)).draw(N, seed=6)
    assert (inputs == outputs * 10).all()
    assert stats.binomtest(int((inputs == 10).sum()), N, 0.75).pvalue > 1e-4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1024", "write INPUT:OUTPUT"),
        ("1024:128@70,9:9", "or none of them"),
        ("1024:128@x", "weight must be a number above 0"),
        ("1024:128@0", "weight must be a number above 0"),
        ("0:128", "from 1 to"),
        ("9-3:128", "the least first"),
        ("gauss(3,4):1", "a length is N, A-B"),
        ("normal(3):1", "takes mean and standard deviation"),
        ("normal(3,0):1", "above 0"),
        ("normal(100,1,500,600):1", "next to nothing"),
        ("exponential(10,1.5,20):1", "whole numbers"),
        ("no.csv", "cannot be read"),
    ],
)
def test_what_cannot_be_is_told(text: str, said: str) -> None:
    with pytest.raises(UsageError, match="--isl-osl") as caught:
        mix_of(text)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"), [("a,b\n1,2\n", "columns"), ("input_tokens,output_tokens\n", "no rows"), ("input_tokens,output_tokens\n1,x\n", "line 2")]
)
def test_files_that_cannot_be(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "l.csv").write_text(text)
    with pytest.raises(UsageError, match=said):
        mix_of(str(tmp_path / "l.csv"))
