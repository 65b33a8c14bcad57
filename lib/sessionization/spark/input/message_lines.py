"""The lines of a file in bounded memory, whatever is in it: plain or compressed, cut off, or without line ends."""

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path

COMPRESSED_ENDING = ".gz"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANK = b" \t\r\n"
_SKIP_BYTES = 1024 * 1024
_LINE_END_BYTES = len(b"\r\n")


@dataclass(frozen=True, slots=True)
class FilePiece:
    """The lines of a file that begin from byte `begin` on and before `end`; a compressed file is one piece."""

    path: Path
    begin: int
    end: int


def read_messages(piece: FilePiece, most_bytes: int) -> Iterator[tuple[bytes, int]]:
    """Yield each line that is not blank, without its LF or CRLF, and its length in bytes.

    A longer line is cut after `most_bytes`. An empty message stands for what cannot be read: the rest of a compressed
    file that is damaged, or a file that was deleted after it was taken.

    Raises `OSError` where the file cannot be read.
    """
    try:
        with _open(piece) as lines:
            yield from _read_lines(lines, piece, most_bytes)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        yield b"", 0
    except FileNotFoundError:
        # Without its folder the file may be on a mount that is gone: its messages must not be passed over.
        if not piece.path.parent.is_dir():
            raise
        if piece.begin == 0:
            yield b"", 0


def _open(piece: FilePiece) -> BufferedIOBase:
    return gzip.open(piece.path) if piece.path.suffix == COMPRESSED_ENDING else piece.path.open("rb")


def _read_lines(lines: BufferedIOBase, piece: FilePiece, most_bytes: int) -> Iterator[tuple[bytes, int]]:
    at = piece.begin
    if at:  # the line that began before belongs to the piece before
        lines.seek(at - 1)
        at += _skip_line(lines, piece.end - at + 1)[0] - 1
    while at < piece.end and (line := lines.readline(most_bytes + _LINE_END_BYTES)):
        length, end = len(line), line[-_LINE_END_BYTES:]
        if not line.endswith(b"\n"):
            skipped, end = _skip_line(lines, last=end)
            length += skipped
        if at == 0 and line.startswith(_BYTE_ORDER_MARK):
            line, length, at = line[3:], length - 3, 3
        at += length
        if end.endswith(b"\n"):
            length -= _LINE_END_BYTES if end == b"\r\n" else 1
        elif end.endswith(b"\r"):
            length -= 1
        if line.strip(_BLANK):
            yield line[: min(length, most_bytes)], length


def _skip_line(lines: BufferedIOBase, most_bytes: int | None = None, last: bytes = b"") -> tuple[int, bytes]:
    """Read to the end of the line, or for at least `most_bytes`. Returns the number of bytes, and the last two."""
    count = 0
    while (most_bytes is None or count < most_bytes) and (part := lines.readline(_SKIP_BYTES)):
        count, last = count + len(part), (last + part)[-_LINE_END_BYTES:]
        if part.endswith(b"\n"):
            break
    return count, last
