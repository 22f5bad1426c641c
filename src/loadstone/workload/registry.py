"""The data sets by name: to add one, write its file and register it here in one line."""

from collections.abc import Callable
from importlib import import_module

import msgspec

from loadstone.config import RunConfig
from loadstone.errors import UsageError
from loadstone.tokenizer import Tokenizer
from loadstone.workload.base import Workload
from loadstone.workload.cache_bust import marked
from loadstone.workload.lora import assign_models
from loadstone.workload.seeds import rng_for

DATA_SETS = {  # name -> file in this folder, whose `load` makes the workload
    "random": "random_text",
    "custom": "custom",
    "sharegpt": "sharegpt",
    "EB": "eb",
    "EBChat": "ebchat",
    "sonnet": "sonnet",
    "prefix_repetition": "prefix_repetition",
    "spec_bench": "spec_bench",
}

WITHOUT_FILE = ("random", "prefix_repetition")  # these draw their prompts


def names() -> list[str]:
    """The data sets that --dataset-name takes."""
    return list(DATA_SETS)


def unused_path(config: RunConfig) -> list[str]:
    """What to say of a --dataset-path that the data set does not read."""
    if config.dataset_path is None or config.dataset_name not in WITHOUT_FILE:
        return []
    return [
        f"note: --dataset-path {config.dataset_path} is not read, for the data set {config.dataset_name} draws its prompts: --dataset-name says what "
        "a file holds (custom, sharegpt ...)"
    ]


def load_workload(config: RunConfig, tokenizer: Tokenizer | None) -> Workload:
    """The prompts of the run that `config` describes, adapters assigned. Raises UsageError for an unknown data set, and for bad data."""
    known = {name.lower(): module for name, module in DATA_SETS.items()}
    module = known.get(config.dataset_name.lower())
    if module is None:
        raise UsageError(f"--dataset-name {config.dataset_name}: there is no such data set; there are {', '.join(names())}")
    load: Callable[[RunConfig, Tokenizer | None], Workload] = import_module(f"loadstone.workload.{module}").load
    workload = load(config, tokenizer)
    if config.cache_bust:
        workload = msgspec.structs.replace(workload, prompts=marked(workload.prompts, config.seed, tokenizer))
    if not config.lora_modules:
        return workload
    rng = rng_for(config.seed, "lora")
    return msgspec.structs.replace(workload, prompts=assign_models(workload.prompts, config.lora_modules, config.lora_assignment, rng))
