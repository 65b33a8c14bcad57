"""The `OSError` for an exception of Hadoop's FileSystem."""

import errno
from typing import Any

STORAGE_ERROR = errno.EREMOTEIO
"""The `errno` of an error of the storage that is none of the file system's usual ones."""
_ERRNO_BY_CLASS = {
    "FileNotFoundException": errno.ENOENT,
    "FileAlreadyExistsException": errno.EEXIST,
    "AccessControlException": errno.EACCES,
    "AccessDeniedException": errno.EACCES,
    "ParentNotDirectoryException": errno.ENOTDIR,
    "PathIsNotDirectoryException": errno.ENOTDIR,
    "PathIsNotEmptyDirectoryException": errno.ENOTEMPTY,
}
_DENIED, _CONDITION_FAILED = "Status Code: 403", "Status Code: 412"


class Uri(str):
    """The `filename` of an `OSError` of a `HadoopPath`."""

    __slots__ = ()


def os_error(java_error: Any, uri: str) -> OSError:
    """The `OSError` for a Java exception, with the first line of its message; three of S3's get plain words."""
    kind = str(java_error.getClass().getSimpleName())
    message = (str(java_error.getMessage() or "").splitlines() or [""])[0]
    if kind == "UnknownStoreException":
        message = "the bucket does not exist"
    elif kind == "AccessDeniedException" and _DENIED in message:
        message = "access is denied (403)"
    elif _CONDITION_FAILED in message:
        kind, message = "FileAlreadyExistsException", "it exists already"
    return OSError(_ERRNO_BY_CLASS.get(kind, STORAGE_ERROR), message or kind, Uri(uri))
