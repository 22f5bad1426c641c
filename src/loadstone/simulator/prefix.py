"""The prefix cache: which leading blocks of a prompt an earlier prompt has left behind.

A block is 16 tokens of the prompt together with all before them (a chained hash), as in vLLM. Only whole blocks count, and at least one token of a
prompt is always computed. Blocks are kept by least recent use, as many as the KV cache holds; unlike in a real engine they do not compete with
running requests for room.
"""

from collections import OrderedDict
from collections.abc import Hashable, Sequence

BLOCK_TOKENS = 16


def chained_blocks(tokens: Sequence[Hashable]) -> tuple[int, ...]:
    """One hash for each whole block of `tokens`, each depending on all before it."""
    blocks, chain = [], 0
    for start in range(0, len(tokens) - BLOCK_TOKENS + 1, BLOCK_TOKENS):
        chain = hash((chain, *tokens[start : start + BLOCK_TOKENS]))
        blocks.append(chain)
    return tuple(blocks)


class PrefixCache:
    def __init__(self, kv_cache_tokens: int) -> None:
        self._most = kv_cache_tokens // BLOCK_TOKENS
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def cached_tokens(self, blocks: tuple[int, ...], prompt_tokens: int) -> int:
        """Tokens of the prompt that need no prefill."""
        hits = 0
        while hits < len(blocks) and blocks[hits] in self._blocks:
            self._blocks.move_to_end(blocks[hits])
            hits += 1
        return min(hits, (prompt_tokens - 1) // BLOCK_TOKENS) * BLOCK_TOKENS

    def add(self, blocks: tuple[int, ...]) -> None:
        """Remember a prompt whose prefill has ended."""
        for block in blocks:
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while len(self._blocks) > self._most:
            self._blocks.popitem(last=False)
