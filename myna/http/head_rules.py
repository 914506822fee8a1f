"""The rules for a request head that the parser does not check."""


def header_error(names: list[bytes], headers: list[tuple[bytes, bytes]], version: str) -> str:
    """Why RFC 9112 (3.2, 6.1) requires a refusal of a head that the parser accepts; "" for a valid head."""
    if version not in ("1.0", "1.1"):
        return "send HTTP/1.1"
    hosts = names.count(b"host")
    if hosts != 1 and (hosts or version == "1.1"):
        return "duplicate header Host" if hosts else "the header Host is missing"
    if b"transfer-encoding" not in names:
        return ""
    if version == "1.0" or b"content-length" in names or names.count(b"transfer-encoding") > 1:
        return "send either Content-Length or, in HTTP/1.1, one Transfer-Encoding"
    coding = headers[names.index(b"transfer-encoding")][1]
    return "" if coding.strip().lower() == b"chunked" else "the only supported Transfer-Encoding is chunked"
