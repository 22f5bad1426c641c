"""Small tokenizers of our own, trained here in a moment, and a folder of data files."""

import json
import random

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from loadstone.tokenizer.fast import FastTokenizer
from loadstone.workload.words import WORDS


@pytest.fixture(scope="session")
def corpus():
    """Sentences in which the same few words follow each other again and again, so that merges over their seams are learnt."""
    rng = random.Random(1)
    common = WORDS[:60]
    return [" ".join(rng.choice(common if rng.random() < 0.7 else WORDS) for _ in range(20)) + "." for _ in range(1500)]


@pytest.fixture(scope="session")
def trained(tmp_path_factory, corpus):
    """Trains a tokenizer and loads it as loadstone does."""

    def train(name, library, trainer):
        library.train_from_iterator(corpus, trainer)
        library.add_special_tokens(["<|end|>"])
        folder = tmp_path_factory.mktemp(name)
        library.save(str(folder / "tokenizer.json"))
        (folder / "tokenizer_config.json").write_text(json.dumps({}))
        return FastTokenizer(str(folder), folder / "tokenizer.json", lambda file: None)

    return train


@pytest.fixture(scope="session")
def bpe(trained):
    """Byte-level BPE as GPT-2 has it: words do not merge with their neighbours."""
    library = Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    return trained("bpe", library, trainers.BpeTrainer(vocab_size=1500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))


@pytest.fixture(scope="session")
def merging_bpe(trained):
    """Byte-level BPE without a split at words: merges reach over spaces, so decoding and encoding again changes the ids."""
    library = Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    library.decoder = decoders.ByteLevel()
    return trained(
        "merging", library, trainers.BpeTrainer(vocab_size=1500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    )


@pytest.fixture(scope="session")
def metaspace(trained):
    """Unigram with spaces as part of the following word and one put before the text, as SentencePiece has it."""
    library = Tokenizer(models.Unigram())
    library.pre_tokenizer = pre_tokenizers.Metaspace()
    library.decoder = decoders.Metaspace()
    return trained("metaspace", library, trainers.UnigramTrainer(vocab_size=700, unk_token="<unk>", special_tokens=["<unk>"], show_progress=False))


@pytest.fixture(scope="session")
def wordpiece(trained):
    """WordPiece with lower-casing, as BERT has it: decoding loses capitals."""
    library = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    library.normalizer = normalizers.Lowercase()
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    library.decoder = decoders.WordPiece()
    return trained("wordpiece", library, trainers.WordPieceTrainer(vocab_size=900, special_tokens=["[UNK]"], show_progress=False))


@pytest.fixture(scope="session")
def letters(trained):
    """Single bytes only, no merges: a tokenizer that has no whole words."""
    library = Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    return trained("letters", library, trainers.BpeTrainer(vocab_size=256, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))


@pytest.fixture
def data_file(tmp_path):
    """Writes a data file (text, bytes, or rows to be written as JSON lines) and gives its path."""

    def write(content, name="data.jsonl"):
        if isinstance(content, list):
            content = "\n".join(json.dumps(row) for row in content)
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write
