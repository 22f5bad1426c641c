"""Addresses: one slash between base and endpoint, no part lost; IPv6; what is no address is refused."""

import pytest

from loadstone.errors import UsageError
from loadstone.target import Target, basic_credentials, target_of

BASES = [  # the forms of base URL and endpoint that people write, and the one path that each means
    ("http://h:1", "/v1/completions", "/v1/completions"),
    ("http://h:1/", "/v1/completions", "/v1/completions"),
    ("http://h:1/team/a", "/v1/completions", "/team/a/v1/completions"),
    ("http://h:1/team/a/", "/v1/completions", "/team/a/v1/completions"),
    ("http://h:1/team/a", "v1/completions", "/team/a/v1/completions"),
    ("http://h:1/team/a/", "/v1/completions", "/team/a/v1/completions"),
    ("http://h:1", "/openai/chat?api-version=1&x=a/b", "/openai/chat?api-version=1&x=a/b"),
    ("http://h:1", "/v1/塔", "/v1/%E5%A1%94"),
    ("http://h:1/a%20b", "/v1/x%2Fy", "/a%20b/v1/x%2Fy"),
    ("http://h:1", "/v1/models/m:predict", "/v1/models/m:predict"),
]


@pytest.mark.parametrize(("base", "endpoint", "path"), BASES)
def test_paths_are_joined_by_one_slash(base: str, endpoint: str, path: str) -> None:
    target = target_of(base, "unused", 1)
    assert target.path_of(endpoint) == path
    assert target.url_of(endpoint) == f"http://h:1{path}"


@pytest.mark.parametrize("given", [(None, "::1", 8000), (None, "[::1]", 8000), ("http://[::1]:8000", "unused", 1)])
def test_ipv6_is_connected_to_without_brackets_and_named_with_them(given: tuple[str | None, str, int]) -> None:
    assert target_of(*given) == Target("http", "::1", 8000, "", "[::1]:8000")


@pytest.mark.parametrize(
    ("base", "target"),
    [
        ("https://api.example.com", Target("https", "api.example.com", 443, "", "api.example.com")),
        ("HTTP://Example.com:80/v1", Target("http", "example.com", 80, "/v1", "example.com")),
        ("https://me:s3cret@h:444/x/", Target("https", "h", 444, "/x", "h:444")),
        ("http://[fe80::1%eth0]:9", Target("http", "fe80::1%eth0", 9, "", "[fe80::1]:9")),
        ("http://bücher.example", Target("http", "xn--bcher-kva.example", 80, "", "xn--bcher-kva.example")),
    ],
)
def test_base_urls(base: str, target: Target) -> None:
    assert target_of(base, "unused", 1) == target


@pytest.mark.parametrize(
    ("base", "said"),
    [
        ("localhost:8000", "must start with http:// or https://"),
        ("", "must start with http:// or https://"),
        ("ftp://h", "must start with http:// or https://"),
        ("http://", "names no host"),
        ("http://:8000", "names no host"),
        ("http://h:port", "no valid URL"),
        ("http://h:0", "from 1 to 65535"),
        ("http://h:99999", "no valid URL"),
        ("http://[::1", "no valid URL"),
        ("http://h/v1?key=1", "put the query into --endpoint"),
        ("http://h/a b", "blank"),
    ],
)
def test_what_is_no_base_url_is_refused(base: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        target_of(base, "unused", 1)
    assert "--base-url" in str(caught.value)


@pytest.mark.parametrize(
    ("host", "said"),
    [("http://h", "--base-url"), ("h:8000", "--port"), ("", "no name or address"), ("a b", "no name or address"), ("me@h", "no name or address")],
)
def test_what_is_no_host_is_refused(host: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        target_of(None, host, 8000)


def test_errors_show_no_password() -> None:
    with pytest.raises(UsageError) as caught:
        target_of("http://me:hunter2@h/v1?x=1", "unused", 1)
    assert "hunter2" not in str(caught.value)


def test_credentials_of_a_url_become_basic_authorization() -> None:
    assert basic_credentials("http://Aladdin:open%20sesame@h") == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="  # the example of RFC 7617
    assert basic_credentials("http://h") is None
    assert basic_credentials(None) is None
