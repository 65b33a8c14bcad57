"""These are notebooks, run by nutter (tests/notebooks/test_execute.py); pytest must not import them."""

collect_ignore_glob = ["*.py"]
