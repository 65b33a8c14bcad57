"""How to install an extra of this package, which no package index has."""


def how_to_install(extra: str) -> str:
    """What to run, in a clone and with the wheel; never by the package's name, which anybody could take in an index.

    >>> how_to_install("kafka")
    "run `.venv/bin/python -m pip install -e '.[kafka]'` in a clone, or `pip install 'PATH/TO/WHEEL.whl[kafka]'`"
    """
    return f"run `.venv/bin/python -m pip install -e '.[{extra}]'` in a clone, or `pip install 'PATH/TO/WHEEL.whl[{extra}]'`"
