"""Raw HTTP responses: the table of `test_conformity.py`.

A row is one server's bytes, what our client makes of them, and where aiohttp makes something else of them, why ours
does not follow. The server closes the connection after the bytes, unless `stays_open`.
"""

from __future__ import annotations

from typing import NamedTuple

LENIENT_HEADERS = (
    "aiohttp is lenient in headers of answers, and two parsers that disagree are how answers get mixed up"
)
OTHER_CODING = (
    "RFC 9112 6.3: an answer with two lengths may be a smuggled one, so its connection is not to be trusted"
)
HANDED_OUT = "aiohttp hands it out as the answer; nothing of ours can go on with another protocol"
UNASKED = (
    "ours decodes nothing; the error names the coding, instead of leaving an unreadable body to the caller"
)
OLD_OR_NEW = "only HTTP/1.0 and HTTP/1.1 have the framing that is relied on"
MORE_ROOM = "ours gives the head 64 KB as a whole, aiohttp 8 KB a line"
CHUNK_LINES = (
    "aiohttp is lenient in the lines of chunks, by which two parsers disagree about where a body ends"
)
ANSWER_IS_WHOLE = (
    "bytes behind a whole answer say nothing about it: ours keeps the answer and closes the connection"
)
NO_SUCH_STATUS = "RFC 9110 15: a status has three digits, of which the first is not 0"


class Row(NamedTuple):
    name: str
    raw: bytes
    expected: tuple[int, bytes] | str
    """Status and body, or the code of the error."""
    method: str = "GET"
    stays_open: bool = False
    differs: str | None = None
    """The reason for a different outcome with aiohttp."""


OK = b"HTTP/1.1 200 OK\r\n"
TWO = b"Content-Length: 2\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
SMUGGLED = OK + TWO + b"\r\nno"
MALFORMED, UNSUPPORTED, CUT_SHORT = "malformed_answer", "unsupported_answer", "disconnected"


def many_headers(count: int) -> bytes:
    return OK + TWO + b"".join(b"x-%d: 1\r\n" % number for number in range(count - 1)) + b"\r\nok"


WHOLE = [
    Row("a length", OK + TWO + b"\r\nok", (200, b"ok"), stays_open=True),
    Row("no reason", b"HTTP/1.1 200 \r\n" + TWO + b"\r\nok", (200, b"ok"), stays_open=True),
    Row("no reason and no space", b"HTTP/1.1 200\r\n" + TWO + b"\r\nok", (200, b"ok"), stays_open=True),
    Row("a reason in Latin-1", b"HTTP/1.1 200 Tr\xe8s bien\r\n" + TWO + b"\r\nok", (200, b"ok")),
    Row("a length of 0", OK + b"Content-Length: 0\r\n\r\n", (200, b""), stays_open=True),
    Row("leading zeros", OK + b"Content-Length: 002\r\n\r\nok", (200, b"ok"), stays_open=True),
    Row("names in any case", OK + b"cONTENT-lENGTH: 2\r\n\r\nok", (200, b"ok"), stays_open=True),
    Row("no space after the colon", OK + b"Content-Length:2\r\n\r\nok", (200, b"ok"), stays_open=True),
    Row("space around a value", OK + b"Content-Length: \t2 \t\r\n\r\nok", (200, b"ok"), stays_open=True),
    Row("an empty value", OK + b"x-empty:\r\n" + TWO + b"\r\nok", (200, b"ok"), stays_open=True),
    Row("a value in Latin-1", OK + b"x-name: M\xfcller\r\n" + TWO + b"\r\nok", (200, b"ok")),
    Row("a colon in a value", OK + b"x-url: http://a:1\r\n" + TWO + b"\r\nok", (200, b"ok")),
    Row("a body that looks like an answer", OK + b"Content-Length: 40\r\n\r\n" + SMUGGLED, (200, SMUGGLED)),
    Row("an error", b"HTTP/1.1 500 Oh\r\n" + TWO + b"\r\nno", (500, b"no"), stays_open=True),
    Row("a status of its own", b"HTTP/1.1 799 Odd\r\n" + TWO + b"\r\nok", (799, b"ok"), stays_open=True),
    Row(
        "a redirect is the caller's to judge",
        b"HTTP/1.1 302 Found\r\nLocation: /x\r\n" + TWO + b"\r\nok",
        (302, b"ok"),
    ),
    Row("the end of the connection", OK + b"\r\nall of it", (200, b"all of it")),
    Row("the end of the connection, at once", OK + b"\r\n", (200, b"")),
    Row("HTTP/1.0 to the end", b"HTTP/1.0 200 OK\r\n\r\nall of it", (200, b"all of it")),
    Row("HTTP/1.0 with a length", b"HTTP/1.0 200 OK\r\n" + TWO + b"\r\nok", (200, b"ok")),
    Row(
        "HTTP/1.0 that keeps the connection",
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n" + TWO + b"\r\nok",
        (200, b"ok"),
        stays_open=True,
    ),
    Row(
        "close, with a length", OK + b"Connection: close\r\n" + TWO + b"\r\nok", (200, b"ok"), stays_open=True
    ),
    Row(
        "close among other options",
        OK + b"Connection: x, Close\r\n" + TWO + b"\r\nok",
        (200, b"ok"),
        stays_open=True,
    ),
    Row("an identity coding", OK + b"Content-Encoding: identity\r\n" + TWO + b"\r\nok", (200, b"ok")),
    Row("a coding of nothing", OK + b"Content-Encoding: gzip\r\nContent-Length: 0\r\n\r\n", (200, b"")),
    Row("128 headers", many_headers(128), (200, b"ok")),
    Row("a long value", OK + b"x-long: " + b"y" * 8_000 + b"\r\n" + TWO + b"\r\nok", (200, b"ok")),
    Row(
        "a longer value",
        OK + b"x-long: " + b"y" * 30_000 + b"\r\n" + TWO + b"\r\nok",
        (200, b"ok"),
        differs=MORE_ROOM,
    ),
]
BODILESS = [
    Row("HEAD", OK + b"Content-Length: 1000\r\n\r\n", (200, b""), "HEAD", stays_open=True),
    Row("HEAD, chunked", CHUNKED, (200, b""), "HEAD", stays_open=True),
    Row("HEAD without a length", OK + b"\r\n", (200, b""), "HEAD", stays_open=True),
    Row("204", b"HTTP/1.1 204 No Content\r\n\r\n", (204, b""), stays_open=True),
    Row(
        "204 with a length",
        b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
        (204, b""),
        stays_open=True,
    ),
    Row("304", b'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\n\r\n', (304, b""), stays_open=True),
    Row(
        "304 with the length of what it stands for",
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
        (304, b""),
        stays_open=True,
    ),
    Row(
        "205 with a length of 0",
        b"HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n",
        (205, b""),
        stays_open=True,
    ),
]
INTERIM = [
    Row(
        "100 before the answer",
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK + TWO + b"\r\nok",
        (200, b"ok"),
        stays_open=True,
    ),
    Row(
        "103 before the answer",
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK + TWO + b"\r\nok",
        (200, b"ok"),
        stays_open=True,
    ),
    Row(
        "102, 103 and 100",
        b"".join(b"HTTP/1.1 %d x\r\n\r\n" % status for status in (102, 103, 100)) + OK + TWO + b"\r\nok",
        (200, b"ok"),
    ),
    Row("100 and no answer", b"HTTP/1.1 100 Continue\r\n\r\n", CUT_SHORT),
    Row(
        "101",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        UNSUPPORTED,
        differs=HANDED_OUT,
    ),
    Row(
        "interim answers without end",
        b"HTTP/1.1 100 Continue\r\nx: %b\r\n\r\n" % (b"y" * 7_000) * 10,
        MALFORMED,
    ),
]
CHUNKS = [
    Row("one chunk", CHUNKED + b"2\r\nok\r\n0\r\n\r\n", (200, b"ok"), stays_open=True),
    Row(
        "chunks",
        CHUNKED + b"2\r\nok\r\nA\r\n0123456789\r\n1\r\n.\r\n0\r\n\r\n",
        (200, b"ok0123456789."),
        stays_open=True,
    ),
    Row("no chunk", CHUNKED + b"0\r\n\r\n", (200, b""), stays_open=True),
    Row(
        "sizes in any case",
        CHUNKED + b"a\r\n0123456789\r\nB\r\n01234567890\r\n0\r\n\r\n",
        (200, b"012345678901234567890"),
    ),
    Row("zeros before a size", CHUNKED + b"0002\r\nok\r\n000\r\n\r\n", (200, b"ok"), stays_open=True),
    Row("an extension", CHUNKED + b"2;a=b\r\nok\r\n0;c\r\n\r\n", (200, b"ok"), stays_open=True),
    Row("a quoted extension", CHUNKED + b'2;a="b c"\r\nok\r\n0\r\n\r\n', (200, b"ok"), stays_open=True),
    Row(
        "a coding in any case",
        OK + b"Transfer-Encoding: Chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        (200, b"ok"),
        stays_open=True,
    ),
    Row(
        "line breaks within a chunk",
        CHUNKED + b"4\r\n\r\n\r\n\r\n0\r\n\r\n",
        (200, b"\r\n\r\n"),
        stays_open=True,
    ),
    Row(
        "trailers", CHUNKED + b"2\r\nok\r\n0\r\nx-sum: 1\r\nx-more: 2\r\n\r\n", (200, b"ok"), stays_open=True
    ),
    Row(
        "chunked, then closed",
        OK + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        (200, b"ok"),
    ),
    Row("a size that is no number", CHUNKED + b"x\r\nok\r\n0\r\n\r\n", MALFORMED),
    Row("a size with a sign", CHUNKED + b"+2\r\nok\r\n0\r\n\r\n", MALFORMED),
    Row("a negative size", CHUNKED + b"-2\r\nok\r\n0\r\n\r\n", MALFORMED),
    Row("a size with 0x", CHUNKED + b"0x2\r\nok\r\n0\r\n\r\n", MALFORMED),
    Row("an empty size", CHUNKED + b"\r\nok\r\n0\r\n\r\n", MALFORMED),
    Row("a size beyond all numbers", CHUNKED + b"FFFFFFFFFFFFFFFFF\r\nok\r\n0\r\n\r\n", MALFORMED),
    Row("a space before a size", CHUNKED + b" 2\r\nok\r\n0\r\n\r\n", MALFORMED),
    Row("a space behind a size", CHUNKED + b"2 \r\nok\r\n0\r\n\r\n", MALFORMED, differs=CHUNK_LINES),
    Row("a size ended by LF", CHUNKED + b"2\nok\r\n0\r\n\r\n", MALFORMED),
    Row("a size ended by CR", CHUNKED + b"2\rok\r\n0\r\n\r\n", MALFORMED),
    Row(
        "an extension without end",
        CHUNKED + b"2;" + b"x" * 20_000 + b"\r\nok\r\n0\r\n\r\n",
        MALFORMED,
        differs=CHUNK_LINES,
    ),
    Row("a control character in an extension", CHUNKED + b"2;a\x00b\r\nok\r\n0\r\n\r\n", MALFORMED),
    Row("a chunk longer than its size", CHUNKED + b"2\r\nokay\r\n0\r\n\r\n", MALFORMED),
    Row("a chunk shorter than its size", CHUNKED + b"4\r\nok\r\n0\r\n\r\n", MALFORMED),
    Row("a chunk ended by LF", CHUNKED + b"2\r\nok\n0\r\n\r\n", MALFORMED, differs=CHUNK_LINES),
    Row("a folded trailer", CHUNKED + b"0\r\nx-a: 1\r\n b\r\n\r\n", MALFORMED, differs=LENIENT_HEADERS),
    Row("a trailer that is none", CHUNKED + b"0\r\nnonsense\r\n\r\n", MALFORMED),
    Row("a trailer ended by LF", CHUNKED + b"0\r\nx-a: 1\n\r\n", MALFORMED, differs=LENIENT_HEADERS),
    Row(
        "trailers without end",
        CHUNKED + b"0\r\n" + b"x-a: 1\r\n" * 10_000 + b"\r\n",
        MALFORMED,
    ),
    Row("cut within a size", CHUNKED + b"2", CUT_SHORT),
    Row("cut within a chunk", CHUNKED + b"4\r\nok", CUT_SHORT),
    Row("cut behind a chunk", CHUNKED + b"2\r\nok\r\n", CUT_SHORT),
    Row("cut before the last line", CHUNKED + b"2\r\nok\r\n0\r\n", CUT_SHORT),
]
FRAMING = [
    Row("two lengths", OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nok!", MALFORMED),
    Row("the same length twice", OK + TWO + TWO + b"\r\nok", MALFORMED),
    Row("a list of lengths", OK + b"Content-Length: 2, 2\r\n\r\nok", MALFORMED),
    Row("an empty length", OK + b"Content-Length:\r\n\r\nok", MALFORMED),
    Row("a negative length", OK + b"Content-Length: -2\r\n\r\nok", MALFORMED),
    Row("a length with a sign", OK + b"Content-Length: +2\r\n\r\nok", MALFORMED),
    Row("a length that is no number", OK + b"Content-Length: two\r\n\r\nok", MALFORMED),
    Row("a length in hexadecimal", OK + b"Content-Length: 0x2\r\n\r\nok", MALFORMED),
    Row("a length with a fraction", OK + b"Content-Length: 2.0\r\n\r\nok", MALFORMED),
    Row("a length beyond all numbers", OK + b"Content-Length: 99999999999999999999\r\n\r\nok", MALFORMED),
    Row(
        "a length, and chunked",
        OK + TWO + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        MALFORMED,
    ),
    Row(
        "chunked, and a length",
        OK + b"Transfer-Encoding: chunked\r\n" + TWO + b"\r\n2\r\nok\r\n0\r\n\r\n",
        MALFORMED,
    ),
    Row(
        "an unknown transfer coding",
        OK + b"Transfer-Encoding: x\r\n\r\nok",
        UNSUPPORTED,
        differs=OTHER_CODING,
    ),
    Row(
        "gzip and chunked",
        OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        UNSUPPORTED,
        differs=OTHER_CODING,
    ),
    Row(
        "chunked and gzip",
        OK + b"Transfer-Encoding: chunked, gzip\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        UNSUPPORTED,
        differs=OTHER_CODING,
    ),
    Row(
        "chunked twice",
        OK + b"Transfer-Encoding: chunked\r\n" * 2 + b"\r\n2\r\nok\r\n0\r\n\r\n",
        UNSUPPORTED,
        differs=OTHER_CODING,
    ),
    Row("identity", OK + b"Transfer-Encoding: identity\r\n\r\nok", UNSUPPORTED, differs=OTHER_CODING),
    Row(
        "chunked in HTTP/1.0",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        MALFORMED,
        differs=OLD_OR_NEW,
    ),
    Row("a body shorter than its length", OK + b"Content-Length: 9\r\n\r\nok", CUT_SHORT),
    Row("no body for a length", OK + b"Content-Length: 9\r\n\r\n", CUT_SHORT),
    Row(
        "a coding that was not asked for",
        OK + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\nok",
        UNSUPPORTED,
    ),
    Row(
        "a coding of chunks",
        OK + b"Content-Encoding: br\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        UNSUPPORTED,
    ),
    Row("an unknown coding", OK + b"Content-Encoding: x\r\n" + TWO + b"\r\nok", UNSUPPORTED, differs=UNASKED),
]
HEADS = [
    Row("nothing", b"", CUT_SHORT),
    Row("half a first line", b"HTTP/1.1 20", CUT_SHORT),
    Row("half a head", OK + b"Content-Le", CUT_SHORT),
    Row("a head without its blank line", OK + TWO, CUT_SHORT),
    Row("another protocol", b"SSH-2.0-OpenSSH_9\r\n", MALFORMED, stays_open=True),
    Row("a body alone", b"{}", MALFORMED, stays_open=True),
    Row("a blank line first", b"\r\n" + OK + TWO + b"\r\nok", MALFORMED, differs=LENIENT_HEADERS),
    Row("a status of two digits", b"HTTP/1.1 20 OK\r\n" + TWO + b"\r\nok", MALFORMED),
    Row("a status of four digits", b"HTTP/1.1 2000 OK\r\n" + TWO + b"\r\nok", MALFORMED),
    Row("a status in letters", b"HTTP/1.1 abc OK\r\n" + TWO + b"\r\nok", MALFORMED),
    Row("a status of 0", b"HTTP/1.1 000 OK\r\n" + TWO + b"\r\nok", MALFORMED, differs=NO_SUCH_STATUS),
    Row("two spaces before the status", b"HTTP/1.1  200 OK\r\n" + TWO + b"\r\nok", MALFORMED),
    Row("HTTP/2", b"HTTP/2.0 200 OK\r\n" + TWO + b"\r\nok", MALFORMED, differs=OLD_OR_NEW),
    Row("HTTP/0.9", b"HTTP/0.9 200 OK\r\n" + TWO + b"\r\nok", MALFORMED, differs=OLD_OR_NEW),
    Row("HTTP/1.2", b"HTTP/1.2 200 OK\r\n" + TWO + b"\r\nok", MALFORMED),
    Row("http in lower case", b"http/1.1 200 OK\r\n" + TWO + b"\r\nok", MALFORMED),
    Row(
        "lines ended by LF",
        b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
        MALFORMED,
        stays_open=True,
        differs=LENIENT_HEADERS,
    ),
    Row("one line ended by LF", OK + b"x-a: 1\n" + TWO + b"\r\nok", MALFORMED, differs=LENIENT_HEADERS),
    Row("a CR within a line", OK + b"x-a: 1\r2\r\n" + TWO + b"\r\nok", MALFORMED),
    Row("a CR before the end of a line", OK + b"x-a: 1\r\r\n" + TWO + b"\r\nok", MALFORMED),
    Row("a NUL in a value", OK + b"x-a: 1\x002\r\n" + TWO + b"\r\nok", MALFORMED),
    Row(
        "a control character in a value",
        OK + b"x-a: 1\x012\r\n" + TWO + b"\r\nok",
        MALFORMED,
        differs=LENIENT_HEADERS,
    ),
    Row(
        "a control character in the reason",
        b"HTTP/1.1 200 O\x01K\r\n" + TWO + b"\r\nok",
        MALFORMED,
        differs=LENIENT_HEADERS,
    ),
    Row("a folded header", OK + b"x-a: 1\r\n 2\r\n" + TWO + b"\r\nok", MALFORMED, differs=LENIENT_HEADERS),
    Row(
        "a length folded away",
        OK + b"x-a: 1\r\n\tContent-Length: 9\r\n" + TWO + b"\r\nok",
        MALFORMED,
        differs=LENIENT_HEADERS,
    ),
    Row(
        "a space before the first header",
        OK + b" x-a: 1\r\n" + TWO + b"\r\nok",
        MALFORMED,
        differs=LENIENT_HEADERS,
    ),
    Row("a space before a colon", OK + b"Content-Length : 2\r\n\r\nok", MALFORMED, differs=LENIENT_HEADERS),
    Row("a header without a colon", OK + b"nonsense\r\n" + TWO + b"\r\nok", MALFORMED),
    Row("a header without a name", OK + b": 1\r\n" + TWO + b"\r\nok", MALFORMED),
    Row("a name with a space", OK + b"x a: 1\r\n" + TWO + b"\r\nok", MALFORMED),
    Row("a name with brackets", OK + b"x(a): 1\r\n" + TWO + b"\r\nok", MALFORMED),
    Row("300 headers", many_headers(300), MALFORMED),
    Row(
        "a head of 100 KB",
        OK + (b"x-a: " + b"y" * 5_000 + b"\r\n") * 20 + TWO + b"\r\nok",
        MALFORMED,
        differs="aiohttp bounds lines, not the whole head",
    ),
    Row("a head without end", OK + b"x-a: " + b"y" * 200_000, MALFORMED, stays_open=True),
]
LEFT_OVER = [
    Row("another answer behind it", OK + TWO + b"\r\nok" + SMUGGLED, (200, b"ok")),
    Row("half an answer behind it", OK + TWO + b"\r\nok" + b"HTTP/1.1 2", (200, b"ok")),
    Row("garbage behind it", OK + TWO + b"\r\nok" + b"garbage", (200, b"ok"), differs=ANSWER_IS_WHOLE),
    Row("a line break behind it", OK + TWO + b"\r\nok" + b"\r\n", (200, b"ok")),
    Row("another answer behind chunks", CHUNKED + b"2\r\nok\r\n0\r\n\r\n" + SMUGGLED, (200, b"ok")),
    Row("a body behind 204", b"HTTP/1.1 204 No Content\r\n\r\n" + b"ok", (204, b""), differs=ANSWER_IS_WHOLE),
    Row("a body behind HEAD", OK + TWO + b"\r\nok", (200, b""), "HEAD", differs=ANSWER_IS_WHOLE),
]
ROWS = [*WHOLE, *BODILESS, *INTERIM, *CHUNKS, *FRAMING, *HEADS, *LEFT_OVER]
