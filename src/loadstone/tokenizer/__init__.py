"""Tokenizers: one interface over local files, the hub, transformers, mistral-common and a person's own."""

from loadstone.tokenizer.base import Tokenizer
from loadstone.tokenizer.load import load_tokenizer

__all__ = ["Tokenizer", "load_tokenizer"]
