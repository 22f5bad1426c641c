"""What a backend takes as a prompt besides a text, by its name: a workload knows a backend by that alone, and tests hold these sets equal to what the
backends say of themselves.
"""

# `generates` is not set: nothing is generated, so no prompt has a wanted length, and none a chat template
POOLING = frozenset(
    {
        *("openai-embeddings", "embeddings", "infinity-embeddings", "openai-embeddings-chat", "openai-embeddings-clip"),
        *("vllm-pooling", "rerank", "vllm-rerank"),
    }
)
# `takes_texts`: several texts in a request; those of RERANK are a query with its documents
TEXTS = POOLING - {"openai-embeddings-chat", "openai-embeddings-clip"}
RERANK = frozenset({"rerank", "vllm-rerank"})
# `takes_token_ids`
TOKEN_IDS = (TEXTS - RERANK) | {"openai", "vllm", "lmdeploy", "scalellm", "sglang", "fastdeploy-completions", "llamacpp"}


def pairs_tokens(query: int, documents: list[int]) -> int:
    """Tokens that a server reads to rank `documents` (tokens each) by a query of `query` tokens: it reads the query with each of them."""
    return query * len(documents) + sum(documents)
