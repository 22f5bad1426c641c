"""EB: FastDeploy's completion requests, JSON lines.

`text` is the prompt, `input_token_num` its length in tokens, `max_dec_len` the most tokens of the answer (0 or absent: left to the server). The row's
sampling fields go into the request under the names that FastDeploy's and other servers' APIs have; absent ones are not sent.
"""

from loadstone.config import RunConfig
from loadstone.tokenizer import Tokenizer
from loadstone.workload import fields
from loadstone.workload.base import Prompt, Workload
from loadstone.workload.files import Row, json_lines
from loadstone.workload.sampling import ordered, workload

SAMPLING = {  # field of the row -> field of the request
    "temperature": "temperature",
    "penalty_score": "repetition_penalty",
    "frequency_score": "frequency_penalty",
    "presence_score": "presence_penalty",
    "topp": "top_p",
}


def load(config: RunConfig, tokenizer: Tokenizer | None) -> Workload:
    return workload(config, ordered(config, [_prompt(row) for row in json_lines(config)]), tokenizer)


def _prompt(row: Row) -> Prompt:
    return Prompt(
        text=fields.text(row, "text"),
        prompt_tokens=fields.tokens(row, "input_token_num", least=0) or None,
        output_tokens=fields.tokens(row, "max_dec_len", least=0) or None,
        extra={sent: value for name, sent in SAMPLING.items() if (value := fields.number(row, name)) is not None},
    )
