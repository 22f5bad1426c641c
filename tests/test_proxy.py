"""Which proxy a call goes through: --proxy, else the environment; who is excepted; what is refused."""

import pytest

from loadstone import RunConfig
from loadstone.errors import UsageError
from loadstone.proxy import proxy_for, proxy_of
from loadstone.redact import public_command
from loadstone.target import target_of

HTTP, HTTPS = target_of("http://api.example.com", "unused", 1), target_of("https://api.example.com:8443", "unused", 1)
BOTH = {"http_proxy": "http://plain:3128", "https_proxy": "http://secure:3128"}


def url(target: str, flag: str | None = None, **environment: str) -> str | None:
    found = proxy_for(target_of(target, "unused", 1), flag, environment)
    return found and found.url


@pytest.mark.parametrize(
    ("environment", "plain", "secure"),
    [
        ({}, None, None),
        (BOTH, "http://plain:3128", "http://secure:3128"),
        ({"HTTP_PROXY": "http://up:1", "HTTPS_PROXY": "http://up:2"}, "http://up:1", "http://up:2"),
        ({**BOTH, "HTTP_PROXY": "http://up:1", "HTTPS_PROXY": "http://up:2"}, "http://plain:3128", "http://secure:3128"),  # small letters win
        ({"http_proxy": "", "HTTP_PROXY": "http://up:1"}, None, None),  # also when they say none
        ({"HTTP_PROXY": "http://up:1", "REQUEST_METHOD": "GET"}, None, None),  # a CGI process: a visitor's header
        ({"ALL_PROXY": "http://all:1", "all_proxy": "http://all:1"}, None, None),
        ({"http_proxy": "plain:3128"}, "http://plain:3128", None),
        ({"http_proxy": "http://plain"}, "http://plain:80", None),
    ],
)
def test_each_scheme_has_its_variable(environment: dict[str, str], plain: str | None, secure: str | None) -> None:
    assert url("http://api.example.com", **environment) == plain
    assert url("https://api.example.com", **environment) == secure


def test_the_flag_wins_over_everything() -> None:
    around = {**BOTH, "no_proxy": "*"}
    for target in ("http://api.example.com", "https://api.example.com", "http://127.0.0.1:8000"):
        assert url(target, "http://mine:1", **around) == "http://mine:1"
        assert url(target, "none", **around) is None


@pytest.mark.parametrize(
    "target", ["http://localhost:8000", "http://127.0.0.1:8000", "http://127.9.9.9", "http://[::1]:1", "http://a.localhost", "http://0.0.0.0"]
)
def test_this_machine_is_not_asked_through_a_proxy_of_the_environment(target: str) -> None:
    assert url(target, **BOTH) is None


@pytest.mark.parametrize(
    ("no_proxy", "target", "excepted"),
    [
        ("*", "http://api.example.com", True),
        ("api.example.com", "http://api.example.com", True),
        ("API.Example.COM", "http://api.example.com", True),
        ("example.com", "http://api.example.com", True),
        (".example.com", "http://api.example.com", True),
        (".example.com", "http://example.com", True),
        ("*.example.com", "http://api.example.com", True),
        ("ample.com", "http://api.example.com", False),
        ("a, example.com", "http://api.example.com", True),
        ("a b,,example.com", "http://api.example.com", True),
        ("", "http://api.example.com", False),
        ("10.1.2.3", "http://10.1.2.3:8000", True),
        ("10.0.0.0/8", "http://10.1.2.3:8000", True),
        ("10.1.0.0/255.255.0.0", "http://10.1.2.3:8000", True),
        ("192.168.0.0/16", "http://10.1.2.3:8000", False),
        ("10.0.0.0/8", "http://ten.example.com", False),  # names are not looked up for this
        ("fd00::/8", "http://[fd00::5]:8000", True),
        ("[fd00::5]:8000", "http://[fd00::5]:8000", True),
        ("[fd00::5]:8001", "http://[fd00::5]:8000", False),
        ("api.example.com:8443", "https://api.example.com:8443", True),
        ("api.example.com:443", "https://api.example.com:8443", False),
    ],
)
def test_no_proxy(no_proxy: str, target: str, excepted: bool) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        assert (url(target, **BOTH, **{name: no_proxy}) is None) == excepted


@pytest.mark.parametrize(
    ("proxy", "said"),
    [
        ("socks5://p:1080", "a socks5 proxy cannot be used"),
        ("socks5h://p:1080", "a socks5h proxy cannot be used"),
        ("https://p:443", "spoken to by TLS cannot be used"),
        ("http://", "is no proxy"),
        ("http://p:port", "no valid URL"),
        ("http://a b:1", "is no proxy"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_source(proxy: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        proxy_for(HTTPS, None, {"HTTPS_PROXY": proxy})
    assert str(caught.value).startswith("HTTPS_PROXY ")
    with pytest.raises(UsageError, match=f"--proxy.*{said}"):
        RunConfig(model="m", proxy=proxy).validated()
    assert proxy_for(HTTP, None, {"HTTPS_PROXY": proxy}) is None  # it is not looked at where it is not used


@pytest.mark.parametrize("proxy", ["http://Aladdin:open%20sesame@p:1", "Aladdin:open%20sesame@p:1"])
def test_credentials_go_into_a_header_and_nowhere_else(proxy: str) -> None:
    found = proxy_of(proxy, "--proxy")
    assert (found.authorization, found.url) == ("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", "http://p:1")  # the example of RFC 7617
    config = RunConfig(model="m", proxy=proxy)
    assert "sesame" not in repr(config) + str(config.public()) + " ".join(public_command(["x", "--proxy", proxy, f"--proxy={proxy}"]))
    with pytest.raises(UsageError) as caught:
        proxy_of(proxy.replace("p:1", "p:x"), "--proxy")
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"uds": "/x", "proxy": "http://p:1"}, "--uds and --proxy"),
        ({"insecure": True, "ca_file": "x"}, "--insecure.*--ca-file"),
        ({"server_name": "https://x"}, "--server-name"),
        ({"connections": "none"}, "--connections"),
    ],
)
def test_what_cannot_go_together(fields: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        RunConfig(model="m", **fields).validated()  # type: ignore[arg-type]
