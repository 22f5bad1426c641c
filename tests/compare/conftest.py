"""Made-up results: latencies that are drawn, in the files that the tools write."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Write = Callable[..., Path]


def arrays(seed: int, n: int, factor: float = 1.0) -> dict[str, Any]:
    """Per-request arrays of n replies of 5 tokens each, in seconds."""
    rng = np.random.default_rng(seed)
    ttfts = factor * 0.1 * np.exp(0.2 * rng.standard_normal(n))
    itls = factor * 0.02 * np.exp(0.2 * rng.standard_normal((n, 4)))
    return {"ttfts": ttfts.tolist(), "itls": itls.tolist(), "output_lens": [5] * n, "errors": [""] * n}


def document(seed: int = 1, n: int = 1000, factor: float = 1.0, detailed: bool = True, **changes: Any) -> dict[str, Any]:
    """A result of loadstone, figures and arrays in agreement."""
    made = arrays(seed, n, factor)
    samples = {
        "ttft": np.array(made["ttfts"]) * 1e3,
        "tpot": np.array(made["itls"]).sum(axis=1) * 1e3 / 4,
        "itl": np.array(made["itls"]).ravel() * 1e3,
    }
    figures: dict[str, Any] = {}
    for name, values in samples.items():
        figures |= {f"mean_{name}_ms": values.mean(), f"median_{name}_ms": np.median(values), f"std_{name}_ms": values.std()}
        figures |= {f"p99_{name}_ms": np.percentile(values, 99), f"n_{name}": len(values), f"ci_p99_{name}_ms": [None, None]}
    return {
        "date": "20260102-030405", "backend": "openai-chat", "label": None, "model_id": "org/m", "num_prompts": n, "request_rate": 10.0,
        "burstiness": 1.0, "max_concurrency": None, "duration": n / 10, "completed": n, "failed": 0, "total_input_tokens": 30 * n,
        "total_output_tokens": 5 * n, "request_throughput": 10.0, "request_goodput": None, "output_throughput": 50.0,
        "total_token_throughput": 350.0, "itl_basis": "event", "loadstone_version": "0.1.0", "command": ["loadstone", "bench", "serve"],
        **figures, **(made if detailed else {}), **changes,
    }  # fmt: skip


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """`write(name, *documents)`: a file of one JSON object, or of one a line."""

    def make(name: str, *documents: Any) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(json.dumps(each) for each in documents) + "\n")
        return path

    return make
