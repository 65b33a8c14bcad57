"""Find out whether a message names an account: as a JSON text with any escapes, as a number, or in malformed JSON.

The comparison uses regular expressions that match every way to write a character, because Spark runs them without
Python. It compares code points: a name in another Unicode normalisation is another name.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import Self

from pyspark.sql import Column
from pyspark.sql import functions as F

from sessionization.event_map.field_path import names_of
from sessionization.event_map.model import EventMap

_SHORT_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
_WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,27}")
_DECIMAL = "decimal(38,9)"
_LONGEST_GAP = 16
_GAP = rf"\s{{0,{_LONGEST_GAP}}}"
# A character that continues a name in malformed JSON: a letter, a digit, or an escaped one. \u0000 to \u002f do not.
_NAME_CHARACTER = r"[\p{L}\p{M}\p{N}_.@+\-]"
_BEFORE = rf"(?:(?<!{_NAME_CHARACTER})|(?<=\\[bfnrt])|(?<=\\u00[012][0-9a-fA-F]))"
_AFTER = rf"(?!{_NAME_CHARACTER}|\\u(?!00[012])[0-9a-fA-F]{{4}})"


@dataclass(frozen=True, slots=True)
class Keys:
    """Names of fields: that of the account, if there is one, and a pattern of those of the others."""

    account: str | None
    others: str

    @classmethod
    def of(cls, events: EventMap) -> Self:
        account = None if events.account_id is None else names_of(events.account_id)[-1]
        others = dict.fromkeys(path[-1] for path in events.paths() if path[-1] != account)
        return cls(account, f"(?:{'|'.join(''.join(map(_literal_pattern, name)) for name in others)})")


def json_names_account(text: Column, accounts: Iterable[str], keys: Keys) -> Column:
    """Whether a well-formed message has an account as a text, or as a number in the field of the account.

    An account inside a longer text does not count. Nor does a field's name, or the value of another known field. So
    messages of other accounts are not deleted.
    """
    return _any(
        F.rlike(text, F.lit(_quoted_pattern(account, keys))) | _is_number(text, account, keys) for account in accounts
    )


def malformed_text_names_account(value: Column, accounts: Sequence[str], keys: Keys) -> Column:
    """Whether a malformed message has an account as a whole word (UTF-8, Latin-1), or as a number in its field."""
    texts = (value.cast("string"), F.decode(value, "ISO-8859-1"))
    words = (F.rlike(text, F.lit(_word_pattern(account, keys))) for text in texts for account in accounts)
    return _any(words) | _any(_is_number(texts[0], account, keys) for account in accounts)


def frame_names_account(value: Column, accounts: Sequence[str]) -> Column:
    """Whether an Avro message that cannot be decoded has an account anywhere: a letter beside it may be a length."""
    return F.startswith(value, F.lit(b"\0")) & _any(F.contains(value, F.lit(one.encode())) for one in accounts)


def _any(conditions: Iterable[Column]) -> Column:
    return reduce(Column.__or__, conditions, F.lit(False))


def _quoted_pattern(account: str, keys: Keys) -> str:
    # Check the surroundings of the quotes: a closing quote and the next opening quote do not enclose a text.
    name = f'"{_text_pattern(account)}"'
    return rf'(?<![^\s:,\[]){name}(?=\s*[,}}\]])(?<!"{keys.others}"{_GAP}:{_GAP}{name})'


def _word_pattern(account: str, keys: Keys) -> str:
    name = _text_pattern(account, is_broken=True)
    other_value = rf"""{keys.others}\\?["']?{_GAP}:{_GAP}\\?["']?"""
    return rf'{_BEFORE}{name}{_AFTER}(?!"\s*:)(?<!{other_value}{name})'


def _is_number(text: Column, account: str, keys: Keys) -> Column:
    """Whether the account is an unquoted number in its field, also in another notation of the same whole number."""
    if keys.account is None or _WHOLE_NUMBER.fullmatch(account) is None:
        return F.lit(False)
    # A longer exponent than two digits would take for ever to convert, and no account that can be given needs one.
    digits = r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+\-]?0*[0-9]{1,2})?"
    number = rf"""{_BEFORE}{_text_pattern(keys.account)}\\?["']?\s*:\s*({digits}){_AFTER}"""
    value = F.lit(Decimal(account)).cast(_DECIMAL)
    return F.exists(
        F.regexp_extract_all(text, F.lit(number), F.lit(1)), lambda number_text: number_text.try_cast(_DECIMAL) == value
    )


def _text_pattern(text: str, *, is_broken: bool = False) -> str:
    r"""A Java regular expression for a text in JSON: each character as it is or escaped, `\u` with hex in either case.

    In malformed JSON (`is_broken`) a quote or a backslash may appear unescaped, and a backslash may be escaped twice.

    >>> _text_pattern("a/")
    '(?:a|\\\\u(?i:0061))(?:\\x{2f}|\\\\\\x{2f}|\\\\u(?i:002f))'
    """
    slashes = r"\\{1,4}" if is_broken else r"\\"
    return "".join(_character_pattern(character, slashes, is_broken=is_broken) for character in text)


def _character_pattern(character: str, slashes: str, *, is_broken: bool) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    forms = [_literal_pattern(character)] if is_broken or character not in '"\\' else []
    if character in _SHORT_ESCAPES:
        forms.append(slashes + _literal_pattern(_SHORT_ESCAPES[character]))
    forms.append("".join(f"{slashes}u(?i:{units[at : at + 2].hex()})" for at in range(0, len(units), 2)))
    return f"(?:{'|'.join(forms)})"


def _literal_pattern(character: str) -> str:
    return character if character.isascii() and character.isalnum() else f"\\x{{{ord(character):x}}}"
