"""The lines of a file in bounded memory, whatever is in it: plain or compressed, cut off, or without line ends."""

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path

COMPRESSED_ENDING = ".gz"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANK = b" \t\r"
_CHUNK_BYTES = 1024 * 1024

Lines = tuple[list[bytes], list[int]]
"""Values of messages, and the length in bytes of each as it came."""
_UNREADABLE: Lines = [b""], [0]


@dataclass(frozen=True, slots=True)
class FilePiece:
    """The lines of a file that begin from byte `begin` on and before `end`; a compressed file is one piece."""

    path: Path
    begin: int
    end: int


def read_messages(piece: FilePiece, most_bytes: int) -> Iterator[Lines]:
    """Yield the lines that are not blank, without their LF or CRLF.

    A longer line is cut after `most_bytes`. An empty value stands for what cannot be read: the rest of a compressed
    file that is damaged, or a file that was deleted after it was taken.

    Raises `OSError` where the file cannot be read.
    """
    try:
        with _open(piece.path) as content:
            yield from _read_lines(content, piece, most_bytes)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        yield _UNREADABLE
    except FileNotFoundError:
        # Without its folder the file may be on a mount that is gone: its messages must not be passed over.
        if not piece.path.parent.is_dir():
            raise
        if piece.begin == 0:
            yield _UNREADABLE


def _open(path: Path) -> BufferedIOBase:
    return gzip.open(path) if path.suffix == COMPRESSED_ENDING else path.open("rb")


def _read_lines(content: BufferedIOBase, piece: FilePiece, most_bytes: int) -> Iterator[Lines]:
    left, mark = piece.end - piece.begin, _BYTE_ORDER_MARK
    if piece.begin:  # the line that began before belongs to the piece before
        content.seek(piece.begin - 1)
        left, mark = left + 1 - _skip_line(content, left + 1), b""
    line = _Line(most_bytes)
    # `read1` gives what was unpacked before the damage of a file, `read` raises.
    while left > 0 and (chunk := content.read1(min(_CHUNK_BYTES, left))):
        left -= len(chunk)
        chunk, mark = chunk.removeprefix(mark), b""
        first, *others = chunk.split(b"\n")
        line.add(first)
        if others:
            yield line.end()
            yield _whole_lines(others[:-1], most_bytes)
            line.add(others[-1])
    while line.length and (part := content.readline(_CHUNK_BYTES)):  # it began in this piece, and ends behind it
        line.add(part.removesuffix(b"\n"))
        if part.endswith(b"\n"):
            break
    yield line.end()


def _whole_lines(lines: list[bytes], most_bytes: int) -> Lines:
    values = [line.removesuffix(b"\r") for line in lines if line.strip(_BLANK)]
    lengths = list(map(len, values))
    if lengths and max(lengths) > most_bytes:
        values = [value[:most_bytes] for value in values]
    return values, lengths


class _Line:
    """A line that has begun: its first bytes, its length, and its last byte."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._reset()

    def _reset(self) -> None:
        self._value, self._last, self._is_blank, self.length = b"", b"", True, 0

    def add(self, part: bytes) -> None:
        self._value += part[: self._most_bytes - len(self._value)]
        self._last = part[-1:] or self._last
        self._is_blank = self._is_blank and not part.strip(_BLANK)
        self.length += len(part)

    def end(self) -> Lines:
        """The line as a message, or no message where it is blank; the next line begins."""
        length = self.length - (self._last == b"\r")
        value, is_blank = self._value[:length], self._is_blank
        self._reset()
        return ([], []) if is_blank else ([value], [length])


def _skip_line(content: BufferedIOBase, most_bytes: int) -> int:
    """Read to the end of the line, or for at least `most_bytes`. Returns the number of bytes."""
    count = 0
    while count < most_bytes and (part := content.readline(_CHUNK_BYTES)):
        count += len(part)
        if part.endswith(b"\n"):
            break
    return count
