"""Strict parsing of one HTTP/1.x response, without I/O: `whole_reply` for the common form, `AnswerParser` for any.

The client needs the exact byte at which a response ends, so that trailing bytes never become the next response, and it
needs to skip the body of a response to HEAD. httptools supports neither. `tests/transport/test_conformity.py` compares
the results with aiohttp's for the same bytes and gives the reason for each difference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from nemo_gym.transport._errors import DISCONNECTED, MALFORMED_ANSWER, UNSUPPORTED_ANSWER
from nemo_gym.transport.calls import Reply

MAX_HEAD_BYTES: Final = 1 << 16
"""Limit for status line and headers, interim responses included; trailers have the same limit again."""
MAX_HEADERS: Final = 256
_MAX_CHUNK_LINE_BYTES: Final = 1 << 12
_BLANK_LINE: Final = b"\r\n\r\n"
_MAX_LENGTH_DIGITS: Final = 18
_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding", b"connection", b"content-encoding"})
_NO_BODY: Final = frozenset({204, 304})

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_NAME = re.compile(_TOKEN)
_TEXT = rb"[^\x00-\x08\x0a-\x1f\x7f]*"
_OTHER_HEADERS = (  # twice in a head, so together no more than `MAX_HEADERS`
    rb"(?:(?!(?i:content-length|content-encoding|transfer-encoding|connection):)"
    + (_TOKEN + rb":" + _TEXT)
    + rb"\r\n){0,127}+"
)
_COMMON_HEAD: Final = re.compile(
    rb"HTTP/1\.1 (?!204|304)([2-5][0-9]{2})(?: "
    + (_TEXT + rb")?\r\n(" + _OTHER_HEADERS)
    + rb"(?i:content-length):[ \t]*([0-9]{1,18})[ \t]*\r\n"
    + (_OTHER_HEADERS + rb")\r\n")
)
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: .*)?")
_PRINTABLE: Final = bytes(code for code in range(256) if code == 0x09 or (code >= 0x20 and code != 0x7F))
_CHUNK_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;" + _TEXT + rb")?")
_CHUNK_SIZE_BEGUN: Final = re.compile(rb"(?:[0-9A-Fa-f]{1,15}[ \t]*(?:;" + _TEXT + rb")?)?\r?")
_LONE_LINE_BREAK: Final = re.compile(rb"(?<!\r)\n|\r(?=[^\n])")


class AnswerError(Exception):
    """The bytes are not a usable response; `code` is the code of the `TransportError` to raise."""

    def __init__(self, message: str, code: str = MALFORMED_ANSWER) -> None:
        super().__init__(message)
        self.code = code


def whole_reply(data: bytes) -> Reply | None:
    """Return the response to a method other than HEAD, if `data` is one complete response of the common form.

    The common form is HTTP/1.1 with one Content-Length and without other headers that frame the body. `AnswerParser`
    parses it with the same result in about six times the time, and everything for which this returns None.
    """
    head = _COMMON_HEAD.match(data)
    if head is None:
        return None
    status, headers, length = head.groups()
    end = head.end()
    if end > MAX_HEAD_BYTES or len(data) - end != int(length):
        return None
    return Reply(int(status), headers, data[end:])


class AnswerParser:
    """Call `feed` until `is_whole`, or `end` when the peer closes the connection; then `reply()` is the response."""

    __slots__ = (
        *("_at", "_body", "_coding", "_data", "_head_bytes", "_headers", "_left", "_searched", "_skips_body"),
        *("_status", "_step", "is_whole", "keeps_alive"),
    )

    def __init__(self, method: str) -> None:
        self.is_whole = False
        self.keeps_alive = False
        """True if the connection can be reused; False if bytes follow the response."""
        self._skips_body = method == "HEAD"
        self._data = b""
        self._at = 0
        """Index of the first unread byte of `_data`."""
        self._searched = 0
        """Index up to which `_data` was searched for the end of the current block."""
        self._head_bytes = 0
        self._status = 0
        self._headers: list[tuple[bytes, bytes]] = []
        self._coding = b""
        self._body: list[bytes] = []
        self._left = 0
        """Missing bytes of the body or of its current chunk."""
        self._step: Callable[[AnswerParser], bool] = AnswerParser._read_head

    def feed(self, data: bytes) -> None:
        """Parse more bytes. Raises `AnswerError`."""
        if self._at:
            self._searched = max(0, self._searched - self._at)
            self._data, self._at = self._data[self._at :], 0
        self._data += data
        while not self.is_whole and self._step(self):
            pass

    def end(self) -> None:
        """Note that the peer closed the connection. Raises `AnswerError` for an incomplete response."""
        if self._step is not AnswerParser._read_to_end:
            where = "in the middle of its response" if self._status or self._data else "before its response"
            raise AnswerError(f"the peer closed the connection {where}", DISCONNECTED)
        self.is_whole = True

    def reply(self) -> Reply:
        """Return the complete response. Raises `AnswerError` for an unexpected content coding."""
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        if self._coding and body:
            coding = self._coding.decode("latin-1")
            raise AnswerError(f"the body has the unexpected content coding {coding!r}", UNSUPPORTED_ANSWER)
        return Reply(self._status, self._headers, body)

    # --- The head -----------------------------------------------------------------------------------------------

    def _read_head(self) -> bool:
        at = self._at
        end = self._find_block_end()
        if end < 0:
            begun = self._data[at : at + 7]
            if not b"HTTP/1.".startswith(begun):
                raise AnswerError(f"the response begins with {self._data[at : at + 40]!r}")
            return False
        first, *lines = _split_lines(self._data[at:end])
        status_line = _STATUS_LINE.fullmatch(first)
        if status_line is None:
            raise AnswerError(f"the status line is {first[:40]!r}")
        self._at = self._searched = end
        self._head_bytes += end - at
        self._status = int(status_line[2])
        if self._status < 200:
            if self._status == 101:
                raise AnswerError("the peer switches to another protocol", UNSUPPORTED_ANSWER)
            return True  # the final answer is still to come
        self._read_headers(lines, status_line[1] == b"1")
        return True

    def _find_block_end(self) -> int:
        """Return the index after the next blank line; -1 if it has not arrived. Raises `AnswerError`."""
        data, at = self._data, self._at
        searched = max(at, self._searched - 3)
        end = data.find(_BLANK_LINE, searched)
        size = (len(data) if end < 0 else end + 4) - at
        if self._head_bytes + size > MAX_HEAD_BYTES:
            raise AnswerError(f"the headers are longer than {MAX_HEAD_BYTES:,} bytes")
        if end < 0:
            self._searched = len(data)
            if _LONE_LINE_BREAK.search(data, searched):  # otherwise the parser could wait forever
                raise AnswerError(_LINE_BREAK_FAULT)
            return -1
        return end + 4

    def _read_headers(self, lines: list[bytes], is_http_1_1: bool) -> None:
        """Determine how the body ends (RFC 9112, section 6.3). Raises `AnswerError` for conflicting headers."""
        framing: dict[bytes, list[bytes]] = {}
        for line in lines:
            name, value = _parse_header(line)
            self._headers.append((name, value))
            if name.lower() in _FRAMING:
                framing.setdefault(name.lower(), []).append(value.strip(b" \t").lower())
        lengths = framing.get(b"content-length", ())
        codings = framing.get(b"transfer-encoding", ())
        if codings or len(lengths) > 1:
            _check_coding(codings, lengths, is_http_1_1)
        options: list[bytes] = []
        if b"connection" in framing:
            options = [option.strip(b" \t") for option in b",".join(framing[b"connection"]).split(b",")]
        if b"content-encoding" in framing:
            self._coding = b", ".join(each for each in framing[b"content-encoding"] if each != b"identity")
        self.keeps_alive = b"close" not in options and (is_http_1_1 or b"keep-alive" in options)
        if lengths:
            self._left = _parse_length(lengths[0])
        if self._skips_body or self._status in _NO_BODY:
            self._finish()
        elif codings:
            self._step = AnswerParser._read_chunk_size
        elif lengths:
            self._step = AnswerParser._read_counted
        else:
            self.keeps_alive = False
            self._step = AnswerParser._read_to_end

    # --- The body -----------------------------------------------------------------------------------------------

    def _read_counted(self) -> bool:
        if not self._take():
            return False
        self._finish()
        return True

    def _read_to_end(self) -> bool:
        self._left = len(self._data) - self._at
        self._take()
        return False

    def _read_chunk_size(self) -> bool:
        data, at = self._data, self._at
        end = data.find(b"\r\n", at)
        line = data[at : end if end >= 0 else at + _MAX_CHUNK_LINE_BYTES + 1]
        size = (_CHUNK_SIZE if end >= 0 else _CHUNK_SIZE_BEGUN).fullmatch(line)
        if size is None or len(line) > _MAX_CHUNK_LINE_BYTES:
            raise AnswerError(f"a chunk size is malformed: {line[:20]!r}")
        if end < 0:
            return False
        self._at = end + 2
        self._left = int(size[1], 16)
        self._step = AnswerParser._read_chunk if self._left else AnswerParser._read_trailers
        if not self._left:
            self._head_bytes, self._searched = 0, self._at
        return True

    def _read_chunk(self) -> bool:
        if not self._take():
            return False
        self._step = AnswerParser._read_chunk_end
        return True

    def _read_chunk_end(self) -> bool:
        behind = self._data[self._at : self._at + 2]
        if not b"\r\n".startswith(behind):
            raise AnswerError("a chunk is longer than its size")
        if len(behind) < 2:
            return False
        self._at += 2
        self._step = AnswerParser._read_chunk_size
        return True

    def _read_trailers(self) -> bool:
        """Check the trailers and drop them: no caller uses them."""
        data, at = self._data, self._at
        if data.startswith(b"\r\n", at):
            self._at += 2
        else:
            end = self._find_block_end()
            if end < 0:
                return False
            for line in _split_lines(data[at:end]):
                _parse_header(line)
            self._at = end
        self._finish()
        return True

    def _take(self) -> bool:
        """Move received bytes to the body. Returns whether the body or chunk is complete."""
        taken = self._data[self._at : self._at + self._left]
        if taken:
            self._body.append(taken)
            self._at += len(taken)
            self._left -= len(taken)
        return not self._left

    def _finish(self) -> None:
        self.is_whole = True
        if self._at < len(self._data):
            self.keeps_alive = False


_LINE_BREAK_FAULT: Final = "a header line ends with a lone CR or LF"


def _split_lines(block: bytes) -> list[bytes]:
    """Split a header block into lines. Raises `AnswerError` for control characters."""
    lines = block.split(b"\r\n")
    del lines[-2:]
    if len(block.translate(None, _PRINTABLE)) != 2 * len(lines) + 2:
        if _LONE_LINE_BREAK.search(block):
            raise AnswerError(_LINE_BREAK_FAULT)
        raise AnswerError("the headers contain a control character")
    if len(lines) > MAX_HEADERS:
        raise AnswerError(f"the response has more than {MAX_HEADERS} headers")
    return lines


def _parse_header(line: bytes) -> tuple[bytes, bytes]:
    """Return the header's name and value.

    Errors quote only the start of a malformed line, which may contain a secret.
    """
    name, colon, value = line.partition(b":")
    if line[:1] in (b" ", b"\t"):
        raise AnswerError("a header is folded over two lines")
    if not colon or not _NAME.fullmatch(name):
        raise AnswerError(f"the header {name[:40]!r} is malformed")
    return name, value


def _parse_length(value: bytes) -> int:
    if not value.isdigit() or len(value) > _MAX_LENGTH_DIGITS:
        raise AnswerError(f"the Content-Length is {value[:40]!r}")
    return int(value)


def _check_coding(codings: Sequence[bytes], lengths: Sequence[bytes], is_http_1_1: bool) -> None:
    if len(lengths) > 1:
        raise AnswerError("the response has more than one Content-Length")
    if lengths:
        raise AnswerError("the response has both Content-Length and Transfer-Encoding")
    if not is_http_1_1:
        raise AnswerError("an HTTP/1.0 response has a Transfer-Encoding")
    if len(codings) > 1 or codings[0] != b"chunked":
        coding = b", ".join(codings)[:40].decode("latin-1")
        raise AnswerError(f"the transfer coding {coding!r} is not supported", UNSUPPORTED_ANSWER)
