"""Asking a proxy for a way through to a server (CONNECT), and what it means when it says no."""

MOST_HEAD = 65536


def request_for(host: str, port: int, authorization: str | None) -> str:
    """The head of the CONNECT request for `host` (an IPv6 address without brackets)."""
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    key = f"proxy-authorization: {authorization}\r\n" if authorization else ""
    return f"CONNECT {place} HTTP/1.1\r\nhost: {place}\r\n{key}\r\n"


def refusal(answer: bytes, proxy: str) -> str:
    """Why the proxy's whole answer is no tunnel, in words; "" if it is one."""
    line = answer.partition(b"\r\n")[0]
    version, _, said = line.decode("latin-1").partition(" ")
    if not version.startswith("HTTP/1."):
        return f"the proxy {proxy} is no HTTP proxy: it answered CONNECT with {line[:60]!r}"
    if said[:1] == "2":
        return ""
    hint = ": give user:password@ in its URL (--proxy, HTTPS_PROXY)" if said[:3] == "407" else ""
    return f"the proxy {proxy} answered CONNECT with {said[:100].strip()}{hint}"


def unanswered(proxy: str) -> str:
    """What is said when the proxy hangs up."""
    return f"the proxy {proxy} closed the connection instead of answering CONNECT"
