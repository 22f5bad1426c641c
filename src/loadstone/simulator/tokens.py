"""The simulated model's tokenizer and its vocabulary.

The rule: text is cut at white space into words, and words into pieces of at most 16 characters; each piece is one token. There are no special tokens
and no chat template, so a chat has the tokens of its messages' text. Every word the model says is one token by this rule, so a reply that comes back
as part of a prompt counts as much as it did when it was made.
"""

import zlib

PIECE = 16  # characters

_TEXT = (
    "the of and to in is you that it he was for on are as with his they at be this have from or one had by word but not what all were we "
    "when your can said there use an each which she do how their if will up other about out many then them these so some her would make like "
    "him into time has look two more write go see number no way could people my than first water been call who oil its now find long down "
    "day did get come made may part over new sound take only little work know place year live me back give most very after thing our just "
    "name good sentence man think say great where help through"
)
WORDS = tuple(b" " + word.encode() for word in _TEXT.split())  # plain letters: they stand in JSON as they are
WORD_MASK = len(WORDS) - 1


def count_tokens(text: str) -> int:
    words = text.split()
    if not words:
        return 0
    if max(map(len, words)) <= PIECE:  # nearly always, and much the cheapest
        return len(words)
    return sum((len(word) + PIECE - 1) // PIECE for word in words)


def pieces(text: str) -> list[str]:
    """The tokens of `text`: as many as `count_tokens` says."""
    return [word[start : start + PIECE] for word in text.split() for start in range(0, len(word), PIECE)]


def token_id(piece: str) -> int:
    """A stable number for a piece, below 131,072. Different pieces may share one: this tokenizer counts, it does not translate."""
    return zlib.crc32(piece.encode("utf-8", "surrogatepass")) & 0x1FFFF


def reply_words(start: int, stride: int, first: int, count: int) -> bytes:
    """Tokens `first` to `first + count` of the reply that walks the vocabulary from `start` by `stride`, as JSON string content."""
    if count == 1:
        return WORDS[(start + stride * first) & WORD_MASK]
    return b"".join([WORDS[(start + stride * token) & WORD_MASK] for token in range(first, first + count)])
