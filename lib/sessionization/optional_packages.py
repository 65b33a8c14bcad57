"""How to install an extra of this package, which is in no package index."""


def how_to_install(extra: str) -> str:
    """Return the commands that install an extra, in a clone and from the wheel.

    No command names the package alone, because anybody could register that name in an index.

    >>> how_to_install("kafka")
    "run `.venv/bin/python -m pip install -e '.[kafka]'` in a clone, or `pip install 'PATH/TO/WHEEL.whl[kafka]'`"
    """
    return (
        f"run `.venv/bin/python -m pip install -e '.[{extra}]'` in a clone, "
        f"or `pip install 'PATH/TO/WHEEL.whl[{extra}]'`"
    )
