"""One HTTP/1.x answer, read from bytes as they arrive: no I/O, nothing lenient, one parser for one answer.

The client has to know where an answer ends to the byte, so that bytes behind it never become the next answer, and
that an answer to HEAD has no body. httptools tells neither. Answers are compared with aiohttp's reading of the same
bytes in `tests/transport/test_conformity.py`, which also gives the reason for each difference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from nemo_gym.transport._errors import DISCONNECTED, MALFORMED_ANSWER, UNSUPPORTED_ANSWER
from nemo_gym.transport.calls import Reply

MAX_HEAD_BYTES: Final = 1 << 16
"""Status line and headers, those of interim answers included; trailers have as many again."""
MAX_HEADERS: Final = 256
_MAX_CHUNK_LINE_BYTES: Final = 1 << 12
_BLANK_LINE: Final = b"\r\n\r\n"
_MAX_LENGTH_DIGITS: Final = 18
_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding", b"connection", b"content-encoding"})
_NO_BODY: Final = frozenset({204, 304})

_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_TEXT = rb"[^\x00-\x08\x0a-\x1f\x7f]*"
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: .*)?")
_PRINTABLE: Final = bytes(code for code in range(256) if code == 0x09 or (code >= 0x20 and code != 0x7F))
_CHUNK_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;" + _TEXT + rb")?")
_CHUNK_SIZE_BEGUN: Final = re.compile(rb"(?:[0-9A-Fa-f]{1,15}[ \t]*(?:;" + _TEXT + rb")?)?\r?")
_LONE_LINE_BREAK: Final = re.compile(rb"(?<!\r)\n|\r(?=[^\n])")

_MAX_KNOWN_NAMES = 1000
_known_names: dict[bytes, bytes] = {}
"""Well-formed names of headers: in lower case where they frame the answer, else empty. The same few keep coming."""


class AnswerError(Exception):
    """The bytes are no answer that can be used; `code` is that of the `TransportError` to raise."""

    def __init__(self, message: str, code: str = MALFORMED_ANSWER) -> None:
        super().__init__(message)
        self.code = code


class AnswerParser:
    """`feed` it until `is_whole`, or `end` it when the peer closes the connection; then `reply` is the answer."""

    __slots__ = (
        *("_at", "_body", "_coding", "_data", "_head_bytes", "_headers", "_left", "_searched", "_skips_body"),
        *("_status", "_step", "is_whole", "keeps_alive"),
    )

    def __init__(self, method: str) -> None:
        self.is_whole = False
        self.keeps_alive = False
        """Whether the connection may carry another call: False where bytes are left behind the answer."""
        self._skips_body = method == "HEAD"
        self._data = b""
        self._at = 0
        """The first byte of `_data` that is not read yet."""
        self._searched = 0
        """Up to where `_data` holds no end of the block that is being read."""
        self._head_bytes = 0
        self._status = 0
        self._headers: list[tuple[bytes, bytes]] = []
        self._coding = b""
        self._body: list[bytes] = []
        self._left = 0
        """Bytes that the body, or its current chunk, still lacks."""
        self._step: Callable[[AnswerParser], bool] = AnswerParser._read_head

    def feed(self, data: bytes) -> None:
        """Read on. Raises `AnswerError`."""
        if self._at:
            self._searched = max(0, self._searched - self._at)
            self._data, self._at = self._data[self._at :], 0
        self._data += data
        while not self.is_whole and self._step(self):
            pass

    def end(self) -> None:
        """The peer sends no more. Raises `AnswerError` where that cuts the answer short."""
        if self._step is not AnswerParser._read_to_end:
            where = "within its answer" if self._status or self._data else "before it answered"
            raise AnswerError(f"it closed the connection {where}", DISCONNECTED)
        self.is_whole = True

    def reply(self) -> Reply:
        """The whole answer. Raises `AnswerError` for one in a coding that was not asked for."""
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        if self._coding and body:
            coding = self._coding.decode("latin-1")
            raise AnswerError(f"its body is coded as {coding!r}, unasked", UNSUPPORTED_ANSWER)
        return Reply(self._status, self._headers, body)

    # --- The head -----------------------------------------------------------------------------------------------

    def _read_head(self) -> bool:
        at = self._at
        end = self._end_of_block()
        if end < 0:
            begun = self._data[at : at + 7]
            if not b"HTTP/1.".startswith(begun):
                raise AnswerError(f"it begins with {self._data[at : at + 40]!r}")
            return False
        first, *lines = _lines_of(self._data[at:end])
        status_line = _STATUS_LINE.fullmatch(first)
        if status_line is None:
            raise AnswerError(f"its first line is {first[:40]!r}")
        self._at = self._searched = end
        self._head_bytes += end - at
        self._status = int(status_line[2])
        if self._status < 200:
            if self._status == 101:
                raise AnswerError("it switches to another protocol, unasked", UNSUPPORTED_ANSWER)
            return True  # the final answer is still to come
        self._read_headers(lines, status_line[1] == b"1")
        return True

    def _end_of_block(self) -> int:
        """The index behind the next blank line; -1 where it has not arrived. Raises where it is too late or can't."""
        data, at = self._data, self._at
        searched = max(at, self._searched - 3)
        end = data.find(_BLANK_LINE, searched)
        size = (len(data) if end < 0 else end + 4) - at
        if self._head_bytes + size > MAX_HEAD_BYTES:
            raise AnswerError(f"its headers are longer than {MAX_HEAD_BYTES:,} bytes")
        if end < 0:
            self._searched = len(data)
            if _LONE_LINE_BREAK.search(data, searched):  # else it might be waited for without end
                raise AnswerError(_LINE_BREAK_FAULT)
            return -1
        return end + 4

    def _read_headers(self, lines: list[bytes], is_newer: bool) -> None:
        """Find out how the body ends (RFC 9112, section 6.3). Raises `AnswerError` where the headers disagree."""
        framing: dict[bytes, list[bytes]] = {}
        for line in lines:
            name, colon, value = line.partition(b":")
            self._headers.append((name, value))
            known = _known_names.get(name) if colon else None
            if known is None:
                known = _checked_name(line)
            if known:
                framing.setdefault(known, []).append(value.strip(b" \t").lower())
        lengths = framing.get(b"content-length", ())
        codings = framing.get(b"transfer-encoding", ())
        if codings or len(lengths) > 1:
            _check_coding(codings, lengths, is_newer)
        options: list[bytes] = []
        if b"connection" in framing:
            options = [option.strip(b" \t") for option in b",".join(framing[b"connection"]).split(b",")]
        if b"content-encoding" in framing:
            self._coding = b", ".join(each for each in framing[b"content-encoding"] if each != b"identity")
        self.keeps_alive = b"close" not in options and (is_newer or b"keep-alive" in options)
        if lengths:
            self._left = _length_of(lengths[0])
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
            raise AnswerError(f"a chunk's size is malformed: {line[:20]!r}")
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
        """Trailers must be well-formed; no caller has a use for them."""
        data, at = self._data, self._at
        if data.startswith(b"\r\n", at):
            self._at += 2
        else:
            end = self._end_of_block()
            if end < 0:
                return False
            for line in _lines_of(data[at:end]):
                _checked_name(line)
            self._at = end
        self._finish()
        return True

    def _take(self) -> bool:
        """Move bytes of the body from what has arrived; whether all that are left to come were there."""
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


_LINE_BREAK_FAULT: Final = "a line of its headers ends with CR or LF alone"


def _lines_of(block: bytes) -> list[bytes]:
    """The lines of headers that end with a blank line. Raises `AnswerError` for control characters in them."""
    lines = block.split(b"\r\n")
    del lines[-2:]
    if len(block.translate(None, _PRINTABLE)) != 2 * len(lines) + 2:
        if _LONE_LINE_BREAK.search(block):
            raise AnswerError(_LINE_BREAK_FAULT)
        raise AnswerError("its headers hold a control character")
    if len(lines) > MAX_HEADERS:
        raise AnswerError(f"it has more than {MAX_HEADERS} headers")
    return lines


def _checked_name(line: bytes) -> bytes:
    """The name of a header in lower case where it says how the answer is framed, else nothing.

    A malformed line is not quoted whole: it may hold a secret.
    """
    name, colon, _ = line.partition(b":")
    if line[:1] in (b" ", b"\t"):
        raise AnswerError("a header is folded over two lines")
    if not colon or not _NAME.fullmatch(name):
        raise AnswerError(f"the header {name[:40]!r} is malformed")
    if len(_known_names) >= _MAX_KNOWN_NAMES:
        _known_names.clear()
    known = name.lower()
    _known_names[name] = known if known in _FRAMING else b""
    return _known_names[name]


def _length_of(value: bytes) -> int:
    if not value.isdigit() or len(value) > _MAX_LENGTH_DIGITS:
        raise AnswerError(f"its Content-Length is {value[:40]!r}")
    return int(value)


def _check_coding(codings: Sequence[bytes], lengths: Sequence[bytes], is_newer: bool) -> None:
    if len(lengths) > 1:
        raise AnswerError("it has more than one Content-Length")
    if lengths:
        raise AnswerError("it has both Content-Length and Transfer-Encoding")
    if not is_newer:
        raise AnswerError("it has a Transfer-Encoding, which HTTP/1.0 has not")
    if len(codings) > 1 or codings[0] != b"chunked":
        coding = b", ".join(codings)[:40].decode("latin-1")
        raise AnswerError(f"its transfer coding {coding!r} is not supported", UNSUPPORTED_ANSWER)
