"""The two input streams: the names of their topics, of their folders of files, and of the column `stream`."""

from typing import Final

PC_STREAM: Final = "pc_sessions"
CONSOLE_STREAM: Final = "console_sessions"
STREAMS: Final = (PC_STREAM, CONSOLE_STREAM)
