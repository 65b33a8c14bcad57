"""What the job knows of Py4J beyond its public names."""

import logging


def silence_lost_connections() -> None:
    """Let Py4J log nothing where a connection to the engine breaks, because one line of the job explains its death.

    Py4J logs it through the root logger, with a traceback, and only its text tells it from other records. A logger of
    its own would replace it.
    """
    logging.getLogger().addFilter(_is_no_lost_connection)


def _is_no_lost_connection(record: logging.LogRecord) -> bool:
    return record.msg != "Exception while sending command."
