"""No secret of a command line is printed or saved."""

import pytest

from loadstone.redact import public_command, public_url


@pytest.mark.parametrize(
    ("given", "public"),
    [
        ("--header Authorization=Bearer-k-1 X-A=b --seed 3", "--header Authorization=*** X-A=*** --seed 3"),
        ("--header=Authorization=k-1", "--header=Authorization=***"),
        ("--header k-1", "--header ***"),
        ("--api-key k-1 --model m", "--api-key *** --model m"),
        ("--api_key=k-1", "--api_key=***"),
        ("--base-url http://me:pa@ss@h:1/v1", "--base-url http://***@h:1/v1"),
        ("--base-url=https://k-1@h", "--base-url=https://***@h"),
        ("--endpoint /v1/chat?api-version=1&api-key=k-1&sig=s%3d#x", "--endpoint /v1/chat?api-version=1&api-key=***&sig=***#x"),
        ("--metadata mail=a@b.c --goodput ttft:200", "--metadata mail=a@b.c --goodput ttft:200"),
    ],
)
def test_command(given: str, public: str) -> None:
    assert public_command(["loadstone", "bench", "serve", *given.split()]) == ["loadstone", "bench", "serve", *public.split()]


@pytest.mark.parametrize("text", ["http://h:1/a@b", "plain", "", "http://h/?monkeys", "/v1/chat?version=1"])
def test_texts_without_secrets_stay(text: str) -> None:
    assert public_url(text) == text
