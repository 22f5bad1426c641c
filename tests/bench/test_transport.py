"""Whole runs over TLS, unix-domain sockets and proxies: every call goes the same way, and what is wrong with it is said with its remedy."""

import json
import socket
import ssl
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadstone import Result, RunConfig, run
from loadstone.errors import NotReadyError, UsageError
from loadstone.report.result_file import result_document
from loadstone.report.terminal import render
from support.proxy import HttpProxy
from support.scripted import LAST_CHUNK, STREAM_HEAD, Request, Scripted, chat_events, chunk, document, stream

SUPPORT = Path(__file__).parent.parent / "support"
CERTIFICATE, CLIENT, KEY, LOCKED = (
    str(SUPPORT / name) for name in ("tls-cert.pem", "tls-client-cert.pem", "tls-client-key.pem", "tls-client-key-locked.pem")
)
WORDS = ["one", " two", " three"]
BASIC = "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="  # Aladdin:open sesame, the example of RFC 7617


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def context(client: bool = False) -> ssl.SSLContext:
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    found.load_cert_chain(CERTIFICATE, str(SUPPORT / "tls-key.pem"))
    if client:
        found.verify_mode = ssl.CERT_REQUIRED
        found.load_verify_locations(CLIENT)
    return found


def fields(**more: Any) -> dict[str, Any]:
    return {"model": "m", "num_prompts": 4, "random_input_len": 8, "random_output_len": 3, "ready_check_timeout_sec": 5, "max_concurrency": 2} | more


def play(connection: socket.socket, request: Request) -> bool:
    """A model list, a profiler and a chat stream."""
    if request.method == "GET":
        return document("200 OK", b'{"data": [{"id": "the-model"}]}')(connection, request)
    if request.target.endswith("profile"):
        return document("200 OK", b"{}")(connection, request)
    return stream(WORDS)(connection, request)


EVERY_CALL = {"/v1/models", "/v1/chat/completions", "/start_profile", "/stop_profile"}


@pytest.mark.parametrize("how", [{"insecure": True}, {"ca_file": CERTIFICATE}])
def test_every_call_is_made_by_the_same_tls(how: dict[str, Any]) -> None:
    """Case D04."""
    with Scripted(play, tls=context()) as server:
        result = run(RunConfig(**fields(base_url=server.url, profile=True, num_warmups=1, model=None, **how)))
    assert result.summary.completed == 4
    assert {request.target for request in server.seen} == EVERY_CALL
    assert any("--insecure" in note for note in result.summary.notes) == ("insecure" in how)


@pytest.mark.parametrize("model", ["m", None])
def test_a_certificate_that_nobody_vouches_for_ends_it_at_once_and_names_the_flags(model: str | None) -> None:
    with Scripted(play, tls=context()) as server, pytest.raises(NotReadyError) as caught:
        run(RunConfig(**fields(base_url=server.url, model=model, ready_check_timeout_sec=600)))
    assert all(word in str(caught.value) for word in ("certificate", "self-signed", "--ca-file", "--insecure", server.url))


def test_a_certificate_for_another_name() -> None:
    with Scripted(play, tls=context()) as server:
        config = fields(base_url=server.url, ca_file=CERTIFICATE, ready_check_timeout_sec=600)
        with pytest.raises(NotReadyError, match=r"example\.org.*--server-name"):
            run(RunConfig(**config, server_name="example.org"))
        assert run(RunConfig(**config, server_name="localhost")).summary.completed == 4


def test_the_name_is_sent_to_the_server() -> None:
    asked: list[str | None] = []
    tls = context()
    tls.sni_callback = lambda _socket, name, _context: asked.append(name)
    with Scripted(play, tls=tls) as server:
        run(RunConfig(**fields(base_url=server.url, insecure=True, server_name="models.example")))
    assert set(asked) == {"models.example"} and len(asked) > 1


def test_plain_http_where_tls_was_meant_and_the_other_way_round() -> None:
    with Scripted(lambda *_: False) as server:
        threading.Timer(0.2, server.__exit__).start()
        with pytest.raises(NotReadyError, match=r"TLS|not ready"):
            run(RunConfig(**fields(base_url=server.url.replace("http:", "https:"), ready_check_timeout_sec=1)))
    with Scripted(play, tls=context()) as server, pytest.raises(NotReadyError):
        run(RunConfig(**fields(base_url=server.url.replace("https:", "http:"), ready_check_timeout_sec=1)))


def test_a_client_certificate_is_shown() -> None:
    with Scripted(play, tls=context(client=True)) as server:
        config = fields(base_url=server.url, ca_file=CERTIFICATE)
        assert run(RunConfig(**config, client_cert=CLIENT, client_key=KEY)).summary.completed == 4
        with pytest.raises(NotReadyError, match="--client-cert"):
            run(RunConfig(**config | {"ready_check_timeout_sec": 600}))
        result = run(RunConfig(**config | {"ready_check_timeout_sec": 0}))  # the worker says it likewise
    assert result.summary.failed == 4 and set(result.summary.failures) == {"tls"}
    assert all("--client-cert" in error for error in result.records.error)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"ca_file": "/no/such.pem"}, r"--ca-file /no/such.pem: No such file"),
        ({"ca_file": __file__}, r"--ca-file .* no certificate in PEM"),
        ({"client_cert": "/no/such.pem"}, r"--client-cert /no/such.pem: No such file"),
        ({"client_cert": CLIENT}, r"--client-cert .*--client-key"),
        ({"client_cert": CLIENT, "client_key": "/no/such.pem"}, r"--client-key /no/such.pem: No such file"),
        ({"client_cert": CLIENT, "client_key": str(SUPPORT / "tls-key.pem")}, r"--client-key .* not the key of the certificate"),
        ({"client_cert": CLIENT, "client_key": LOCKED}, r"--client-key .* passphrase"),
        ({"client_cert": CLIENT, "client_key": __file__}, r"--client-key .* cannot be used"),
        ({"client_key": KEY}, r"--client-key .*--client-cert"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_before_anything_is_sent(files: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        run(RunConfig(**fields(base_url="https://127.0.0.1:1", **files)))


# unix-domain sockets


def test_a_unix_domain_socket_carries_every_call(tmp_path: Path) -> None:
    path = str(tmp_path / "server.sock")
    sends: list[int] = []

    def slow(connection: socket.socket, request: Request) -> bool:
        if request.method == "GET" or "profile" in request.target:
            return play(connection, request)
        connection.sendall(STREAM_HEAD)
        time.sleep(0.01)
        sends.append(time.monotonic_ns())
        connection.sendall(b"".join(chunk(event) for event in chat_events(WORDS)) + LAST_CHUNK)
        return True

    with Scripted(slow, family=socket.AF_UNIX, address=path) as server:
        result = run(RunConfig(**fields(uds=path, base_url="http://models.example/team", model=None, profile=True, max_concurrency=1)))
    assert {request.target for request in server.seen} == {f"/team{target}" for target in EVERY_CALL}
    assert {request.headers["host"] for request in server.seen} == {"models.example"}
    assert result.clock == "user" and result.summary.client["reads_without_kernel_stamp"] == 0
    first = result.records.first_token_ns
    assert (np.array(sends[1:]) <= first).all() and (first[:-1] < np.array(sends[2:])).all()
    assert any(path in note for note in result.summary.notes)


def test_https_over_a_unix_domain_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "server.sock")
    with Scripted(play, family=socket.AF_UNIX, address=path, tls=context()) as server:
        result = run(RunConfig(**fields(uds=path, base_url="https://localhost", ca_file=CERTIFICATE)))
    assert result.summary.completed == 4 and len(server.seen) == 5


def test_a_full_queue_of_a_unix_domain_socket_is_waited_for(tmp_path: Path) -> None:
    path = str(tmp_path / "server.sock")
    for how in ("reuse", "new"):
        with Scripted(play, family=socket.AF_UNIX, address=path, backlog=1):
            result = run(RunConfig(**fields(uds=path, num_prompts=60, max_concurrency=30, connections=how, ready_check_timeout_sec=0)))
        assert result.summary.completed == 60, result.summary.failure_examples
        Path(path).unlink()


def test_a_socket_file_that_is_none(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for path, said in ((str(file), "is no socket"), ("/no/folder/x.sock", "no such folder"), ("/" + "x" * 200, "longer than")):
        with pytest.raises(UsageError, match=f"--uds.*{said}"):
            run(RunConfig(**fields(uds=path)))
    missing = str(tmp_path / "later.sock")
    with pytest.raises(NotReadyError, match=r"--uds .*later\.sock: No such file"):
        run(RunConfig(**fields(uds=missing, ready_check_timeout_sec=0.5)))
    result = run(RunConfig(**fields(uds=missing, ready_check_timeout_sec=0)))
    assert set(result.summary.failures) == {"not connected"} and missing in result.records.error[0]


# proxies


def through(proxy: HttpProxy, server: Scripted, **more: Any) -> Result:
    return run(RunConfig(**fields(base_url=server.url, proxy=proxy.url, profile=True, model=None, **more)))


def test_plain_http_names_the_whole_url_to_the_proxy() -> None:
    with Scripted(play) as server, HttpProxy() as proxy:
        result = through(proxy, server)
    assert result.summary.completed == 4
    assert {line.split()[1] for line in proxy.lines} <= {server.url + target for target in EVERY_CALL}
    assert {request.target for request in server.seen} == {server.url + target for target in EVERY_CALL}
    assert {request.headers["host"] for request in server.seen} == {server.url.removeprefix("http://")}
    assert any(f"through the proxy {proxy.url} (--proxy)" in note for note in result.summary.notes)


def test_https_goes_through_a_tunnel() -> None:
    with Scripted(play, tls=context()) as server, HttpProxy() as proxy:
        result = through(proxy, server, ca_file=CERTIFICATE, api_key="k-123")
    assert result.summary.completed == 4
    assert set(proxy.lines) == {f"CONNECT 127.0.0.1:{server.port} HTTP/1.1"}
    assert all("k-123" not in head for head in proxy.heads)
    assert {request.target for request in server.seen} == EVERY_CALL


@pytest.mark.parametrize("tls", [False, True])
def test_the_proxy_s_credentials_are_for_it_alone_and_in_no_output(tls: bool, tmp_path: Path) -> None:
    with Scripted(play, tls=context() if tls else None) as server, HttpProxy(wants=BASIC) as proxy:
        named = proxy.url.replace("http://", "http://Aladdin:open%20sesame@")
        config = RunConfig(**fields(base_url=server.url, proxy=named, insecure=tls, records=str(tmp_path / "r"), keep_wire=str(tmp_path / "w")))
        result = run(config, command=["loadstone", "--proxy", named])
        assert result.summary.completed == 4
        if tls:
            assert all("proxy-authorization" not in request.headers for request in server.seen)
        written = json.dumps(result_document(result.summary, result.records, result.config, date=result.started, command=result.command))
        printed = render(result.summary, result.config)
        files = "".join(path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file())
        for secret in ("sesame", BASIC.split()[1]):
            assert secret not in written + printed + files
        with pytest.raises(NotReadyError, match=r"407|wants credentials") as caught:
            run(RunConfig(**fields(base_url=server.url, proxy=proxy.url, insecure=tls, ready_check_timeout_sec=600)))
        assert "--proxy" in str(caught.value)


@pytest.mark.parametrize("tls", [False, True])
def test_a_proxy_that_does_not_let_through_is_named(tls: bool) -> None:
    scheme = "https" if tls else "http"
    with HttpProxy() as proxy:  # it answers 502 for a port that nobody listens on
        result = run(RunConfig(**fields(base_url=f"{scheme}://127.0.0.1:9", proxy=proxy.url, ready_check_timeout_sec=0)))
    assert result.summary.failed == 4
    assert all(proxy.url in error and "502" in error for error in result.records.error)
    result = run(RunConfig(**fields(base_url=f"{scheme}://127.0.0.1:9", proxy=proxy.url, ready_check_timeout_sec=0)))  # it is gone
    assert all(proxy.url in error and "refused" in error for error in result.records.error)
    with pytest.raises(NotReadyError, match=rf"proxy {proxy.url} \(--proxy\): .*refused"):
        run(RunConfig(**fields(base_url=f"{scheme}://127.0.0.1:9", proxy=proxy.url, ready_check_timeout_sec=0.5)))


def test_what_answers_connect_and_is_no_proxy() -> None:
    with HttpProxy(answers=b"SSH-2.0-OpenSSH_9.6\r\n\r\n") as proxy:
        result = run(RunConfig(**fields(base_url="https://127.0.0.1:9", proxy=proxy.url, ready_check_timeout_sec=0)))
    assert all("no HTTP proxy" in error for error in result.records.error)


def test_the_environment_names_a_proxy_for_every_call_but_not_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with Scripted(play) as server, HttpProxy() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        run(RunConfig(**fields(base_url=server.url)))
        assert not proxy.lines
        with pytest.raises(NotReadyError, match=r"HTTP_PROXY"):  # the proxy cannot find it: 502
            run(RunConfig(**fields(base_url="http://models.invalid:80", ready_check_timeout_sec=0.5)))
        assert proxy.lines


def test_the_proxy_s_own_name_is_the_one_looked_up() -> None:
    with pytest.raises(NotReadyError, match=r"the proxy 'proxy.invalid' has no address.*--proxy"):
        run(RunConfig(**fields(base_url="http://models.invalid", proxy="http://proxy.invalid:1")))
