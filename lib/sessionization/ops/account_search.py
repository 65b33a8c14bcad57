"""Whether a message names an account: as a text in JSON, however it is escaped, as a number, or in what was to be JSON.

A message is compared by regular expressions that know every way to write a character, not by its bytes: Spark runs them
without Python. The comparison is by code points: a name in another Unicode normalisation is another name.
"""

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

_SHORT = {'"': '"', "\\": "\\", "/": "/", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
_WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,27}")
_DECIMAL = "decimal(38,9)"
_ACCOUNT_KEY = "psnAccountId"
_OTHER_KEYS = "(?:hostPcId|openPsid|eventId|timestamp|appSessionId|totalFgTime)"
_LONGEST_GAP = 16
_GAP = rf"\s{{0,{_LONGEST_GAP}}}"
# Of a name, next to it in a text that is no JSON: a letter, a digit, or one of them escaped. \u0000 to \u002f are not.
_OF_A_NAME = r"[\p{L}\p{M}\p{N}_.@+\-]"
_BEFORE = rf"(?:(?<!{_OF_A_NAME})|(?<=\\[bfnrt])|(?<=\\u00[012][0-9a-fA-F]))"
_AFTER = rf"(?!{_OF_A_NAME}|\\u(?!00[012])[0-9a-fA-F]{{4}})"


def json_names_account(text: Column, accounts: Iterable[str]) -> Column:
    """Whether a well-formed message has an account as a text, or as the number `psnAccountId`.

    A name inside a longer text does not count, nor a field's name, nor the value of another known field. So messages of other
    accounts are not deleted.
    """
    return _any(F.rlike(text, F.lit(_quoted(account))) | _is_number(text, account) for account in accounts)


def malformed_text_names_account(value: Column, accounts: Sequence[str]) -> Column:
    """Whether a message that cannot be read holds an account as a whole word, in UTF-8 or Latin-1, or as that number."""
    texts = (value.cast("string"), F.decode(value, "ISO-8859-1"))
    words = (F.rlike(text, F.lit(_word(account))) for text in texts for account in accounts)
    return _any(words) | _any(_is_number(texts[0], account) for account in accounts)


def _any(conditions: Iterable[Column]) -> Column:
    return reduce(Column.__or__, conditions, F.lit(False))


def _quoted(account: str) -> str:
    # Around a value: a closing quote of one text and the opening quote of the next are not the quotes of a text.
    name = f'"{_written(account)}"'
    return rf'(?<![^\s:,\[]){name}(?=\s*[,}}\]])(?<!"{_OTHER_KEYS}"{_GAP}:{_GAP}{name})'


def _word(account: str) -> str:
    name = _written(account, is_broken=True)
    others = rf"""{_OTHER_KEYS}\\?["']?{_GAP}:{_GAP}\\?["']?"""
    return rf'{_BEFORE}{name}{_AFTER}(?!"\s*:)(?<!{others}{name})'


def _is_number(text: Column, account: str) -> Column:
    """Whether it is the value of `psnAccountId` without quotes: as it is written, or another writing of a whole number."""
    if _WHOLE_NUMBER.fullmatch(account) is None:
        return F.lit(False)
    # An exponent of more than two digits would take for ever to convert, and is of no account that is looked for.
    digits = r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+\-]?0*[0-9]{1,2})?"
    number = rf"""{_BEFORE}{_written(_ACCOUNT_KEY)}\\?["']?\s*:\s*({digits}){_AFTER}"""
    value = F.lit(Decimal(account)).cast(_DECIMAL)
    return F.exists(F.regexp_extract_all(text, F.lit(number), F.lit(1)), lambda said: said.try_cast(_DECIMAL) == value)


def _written(text: str, *, is_broken: bool = False) -> str:
    r"""A regular expression (Java's) for a text in JSON: each character as it is or escaped, `\u` in either case of hex.

    In what is no JSON a quote or a backslash may stand for itself, and a backslash be escaped once more.

    >>> _written("a/")
    '(?:a|\\\\u(?i:0061))(?:\\x{2f}|\\\\\\x{2f}|\\\\u(?i:002f))'
    """
    slashes = r"\\{1,4}" if is_broken else r"\\"
    return "".join(_any_writing(character, slashes, is_broken=is_broken) for character in text)


def _any_writing(character: str, slashes: str, *, is_broken: bool) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    ways = [_plain(character)] if is_broken or character not in '"\\' else []
    if character in _SHORT:
        ways.append(slashes + _plain(_SHORT[character]))
    ways.append("".join(f"{slashes}u(?i:{units[at : at + 2].hex()})" for at in range(0, len(units), 2)))
    return f"(?:{'|'.join(ways)})"


def _plain(character: str) -> str:
    return character if character.isascii() and character.isalnum() else f"\\x{{{ord(character):x}}}"
