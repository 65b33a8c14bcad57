"""The tests, and the programs beside them, start Spark on this machine."""

import sessionization_laptop as sessionization_laptop
