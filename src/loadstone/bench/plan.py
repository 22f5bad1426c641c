"""`loadstone plan` after its flags: the plan made as for a run, shown, and written where that was asked for."""

from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from loadstone import backends
from loadstone.bench.plan_file import write_plan_file
from loadstone.bench.plan_page import figures_json, plan_page
from loadstone.bench.prepare import measured_plan, options_of, warm_up_plan
from loadstone.config import RunConfig
from loadstone.errors import UsageError
from loadstone.tokenizer import load_tokenizer


def show_plan(config: RunConfig, out: str | None, *, as_json: bool = False) -> str:
    """The page (or JSON) that shows the plan of `config`; the plan itself goes to the file `out`. Raises UsageError for what cannot be."""
    config = config.validated()
    if config.model is None and out is not None:
        raise UsageError("--out needs --model: the model's name stands in every request")
    backend = backends.get(config.backend, config.template)
    options = options_of(config, config.served_model_name or config.model or "MODEL")
    backend.check(options)
    tokenizer, note = load_tokenizer(config)
    with TemporaryDirectory(prefix="loadstone-") as scratch:
        folder = Path(scratch)
        kept = msgspec.structs.replace(config, save_detailed=True)  # texts, to look for shared prefixes
        prepared = measured_plan(kept, folder / "plan", backend, options, tokenizer)
        if note:
            prepared = msgspec.structs.replace(prepared, notes=[note, *prepared.notes])
        if out is not None:
            warm_up = warm_up_plan(config, max(config.num_warmups, 1), folder / "warm-up", backend, options, tokenizer)
            write_plan_file(Path(out), prepared, warm_up, config.public())
        return figures_json(prepared).decode() + "\n" if as_json else plan_page(prepared, config).plain()
