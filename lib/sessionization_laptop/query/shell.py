"""Queries one after the other, at a prompt that completes names."""

from collections.abc import Callable, Iterable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory

HISTORY = Path("~/.sessionization_sql_history")


def ask_queries(names: Iterable[str], answer: Callable[[str], None]) -> None:
    """Ask for statements and answer them, until Ctrl-D. A statement ends with a semicolon, on any line."""
    session: PromptSession[str] = PromptSession(
        "sql> ",
        multiline=Condition(lambda: _goes_on(get_app().current_buffer.text)),
        prompt_continuation="...> ",
        completer=WordCompleter(sorted(set(names)), ignore_case=True),
        history=FileHistory(str(HISTORY.expanduser())),
    )
    while True:
        try:
            statement = session.prompt()
        except KeyboardInterrupt:  # Ctrl-C drops what was typed
            continue
        except EOFError:
            return
        if statement := statement.strip("; \n"):
            answer(statement)


def _goes_on(text: str) -> bool:
    return bool(text.strip()) and not text.rstrip().endswith(";")
