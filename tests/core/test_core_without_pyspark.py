"""The core needs only the standard library."""

import subprocess
import sys
from pathlib import Path

import sessionization

LIBRARY = Path(sessionization.__file__).parents[1]

# The imports below can reach only the standard library and this project.
IMPORT_CORE = """
import pkgutil, sys, importlib

class OnlyTheStandardLibrary:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in {*sys.stdlib_module_names, "sessionization"}:
            raise ModuleNotFoundError(f"{name} is blocked", name=name)

sys.meta_path.insert(0, OnlyTheStandardLibrary())
sys.path.insert(0, sys.argv[1])
import sessionization.core as core

for module in pkgutil.iter_modules(core.__path__, "sessionization.core."):
    importlib.import_module(module.name)
    print(module.name)
try:
    import pyspark
except ModuleNotFoundError:
    print("pyspark is out of reach")
"""


def test_every_module_of_the_core_can_be_imported_without_pyspark() -> None:
    run = subprocess.run(
        [sys.executable, "-I", "-c", IMPORT_CORE, str(LIBRARY)], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stderr
    imported = run.stdout.splitlines()
    assert {"sessionization.core.events", "sessionization.core.session_rules"} < set(imported)
    assert imported[-1] == "pyspark is out of reach"
