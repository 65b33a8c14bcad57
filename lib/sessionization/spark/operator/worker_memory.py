"""How the Python worker of the operator collects garbage."""

import gc

_OBJECTS_BEFORE_GC = 100_000


def reduce_garbage_collection() -> None:
    """Make garbage collection rare in a worker: it would take 2/5 of the worker's time and find nothing.

    Entries and rows hold no reference cycles. The daemon also collects after every task, each time through all
    objects of the imported libraries. Freezing exempts these objects from then on.
    """
    gc.set_threshold(_OBJECTS_BEFORE_GC)
    if not gc.get_freeze_count():
        gc.freeze()
