/* Gives the files below the folder $VOLUME the ways of a Databricks volume, for the process that preloads this library.

   A file cannot be renamed, linked, synced, locked, appended to, or changed in place, nor its mode or times set. For
   $VOLUME_LISTS_LATE_S seconds a listing lacks a file that was changed, and still has one that was deleted.

   What it does not show: a file that is being written can be opened by its name, where a volume shows it once it is
   closed; and the process's children do not preload the library, as Spark's engine reaches a volume without the mount
   and its workers only read there. Sources: ../../docs/adr/0033-what-differs-by-workspace.md. Whether a volume takes a
   mode or a time is not known, so it does not here. */

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char volume[PATH_MAX];
static long lists_late_s;

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void begin(void) {
    const char *folder = getenv("VOLUME"), *late = getenv("VOLUME_LISTS_LATE_S");
    snprintf(volume, sizeof volume, "%s", folder ? folder : "/Volumes");
    lists_late_s = late ? atol(late) : 0;
    unsetenv("LD_PRELOAD");
}

static int is_below(const char *path) {
    size_t length = strlen(volume);
    return path && strncmp(path, volume, length) == 0 && (path[length] == '/' || path[length] == 0);
}

/* Write the path of an open file or folder; 0 where it has none. */
static int path_of(int fd, char *path) {
    char link[64];
    if (fd == AT_FDCWD) return getcwd(path, PATH_MAX) != NULL;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return 1;
}

static int has_file_below(int fd) {
    char path[PATH_MAX];
    int before = errno, found = path_of(fd, path) && is_below(path);
    errno = before;
    return found;
}

/* Whether a path is below the volume; a relative one is below the folder `fd`. */
static int is_below_at(int fd, const char *path) {
    return path && (path[0] == '/' ? is_below(path) : has_file_below(fd));
}

static int refuse(int error) {
    errno = error;
    return -1;
}

/* Defines a call that fails with `error` where the condition holds. */
#define REFUSE(error, type, name, parameters, arguments, condition)   \
    type name parameters {                                            \
        if (condition) return refuse(error);                          \
        return NEXT(name) arguments;                                  \
    }

#define HERE(path) is_below_at(AT_FDCWD, path)

REFUSE(ENOSYS, int, rename, (const char *from, const char *to), (from, to), HERE(from) || HERE(to))
REFUSE(ENOSYS, int, renameat, (int from_fd, const char *from, int to_fd, const char *to), (from_fd, from, to_fd, to),
       is_below_at(from_fd, from) || is_below_at(to_fd, to))
REFUSE(ENOSYS, int, renameat2, (int from_fd, const char *from, int to_fd, const char *to, unsigned flags),
       (from_fd, from, to_fd, to, flags), is_below_at(from_fd, from) || is_below_at(to_fd, to))
REFUSE(ENOSYS, int, link, (const char *from, const char *to), (from, to), HERE(from) || HERE(to))
REFUSE(ENOSYS, int, linkat, (int from_fd, const char *from, int to_fd, const char *to, int flags),
       (from_fd, from, to_fd, to, flags), is_below_at(from_fd, from) || is_below_at(to_fd, to))
REFUSE(ENOSYS, int, symlink, (const char *target, const char *path), (target, path), HERE(path))
REFUSE(ENOSYS, int, symlinkat, (const char *target, int fd, const char *path), (target, fd, path), is_below_at(fd, path))
REFUSE(ENOSYS, ssize_t, copy_file_range,
       (int from, off64_t *at, int to, off64_t *to_at, size_t length, unsigned flags),
       (from, at, to, to_at, length, flags), has_file_below(from) || has_file_below(to))

REFUSE(EPERM, int, chmod, (const char *path, mode_t mode), (path, mode), HERE(path))
REFUSE(EPERM, int, fchmod, (int fd, mode_t mode), (fd, mode), has_file_below(fd))
REFUSE(EPERM, int, fchmodat, (int fd, const char *path, mode_t mode, int flags), (fd, path, mode, flags),
       is_below_at(fd, path))
REFUSE(EPERM, int, utimensat, (int fd, const char *path, const struct timespec times[2], int flags),
       (fd, path, times, flags), is_below_at(fd, path))
REFUSE(EPERM, int, futimens, (int fd, const struct timespec times[2]), (fd, times), has_file_below(fd))

REFUSE(EPERM, int, fsync, (int fd), (fd), has_file_below(fd))
REFUSE(EPERM, int, fdatasync, (int fd), (fd), has_file_below(fd))
REFUSE(ENOSYS, int, flock, (int fd, int operation), (fd, operation), has_file_below(fd))

static int is_lock(int command) {
    return command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK || command == F_OFD_SETLKW;
}

/* Whether to refuse the opening of a file: without a name, to append, or to change what is in it. */
static int changes_in_place(int fd, const char *path, int flags) {
    if ((flags & O_ACCMODE) == O_RDONLY || !is_below_at(fd, path)) return 0;
    return (flags & O_TMPFILE) == O_TMPFILE || (flags & O_APPEND) || !(flags & (O_TRUNC | O_EXCL));
}

/* Whether an open file is written to on the volume: it takes bytes at its end alone. */
static int is_written(int fd) {
    int before = errno, flags = NEXT(fcntl)(fd, F_GETFL);
    errno = before;
    return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && has_file_below(fd);
}

static off64_t size_of(int fd) {
    struct stat status;
    return fstat(fd, &status) ? -1 : status.st_size;
}

/* The calls that exist twice, for offsets of two sizes. */
#define OF_ONE_SIZE(fcntl, open, openat, lseek, pwrite, truncate, ftruncate, offset)                             \
    int fcntl(int fd, int command, ...) {                                                                        \
        ARGUMENT(command);                                                                                       \
        return is_lock(command) && has_file_below(fd) ? refuse(ENOSYS) : NEXT(fcntl)(fd, command, argument);     \
    }                                                                                                            \
    int open(const char *path, int flags, ...) {                                                                 \
        ARGUMENT(flags);                                                                                         \
        if (changes_in_place(AT_FDCWD, path, flags)) return refuse(EPERM);                                       \
        return NEXT(open)(path, flags, (mode_t)(size_t)argument);                                                \
    }                                                                                                            \
    int openat(int fd, const char *path, int flags, ...) {                                                       \
        ARGUMENT(flags);                                                                                         \
        if (changes_in_place(fd, path, flags)) return refuse(EPERM);                                             \
        return NEXT(openat)(fd, path, flags, (mode_t)(size_t)argument);                                          \
    }                                                                                                            \
    offset lseek(int fd, offset to, int whence) {                                                                \
        if (!is_written(fd)) return NEXT(lseek)(fd, to, whence);                                                 \
        offset before = NEXT(lseek)(fd, 0, SEEK_CUR), after = NEXT(lseek)(fd, to, whence);                       \
        if (after == before || after < 0) return after;                                                          \
        NEXT(lseek)(fd, before, SEEK_SET);                                                                       \
        return refuse(ESPIPE);                                                                                   \
    }                                                                                                            \
    REFUSE(EPERM, ssize_t, pwrite, (int fd, const void *bytes, size_t count, offset at), (fd, bytes, count, at), \
           is_written(fd) && at != size_of(fd))                                                                  \
    REFUSE(EPERM, int, truncate, (const char *path, offset length), (path, length), HERE(path))                  \
    REFUSE(EPERM, int, ftruncate, (int fd, offset length), (fd, length), is_written(fd) && length != size_of(fd))

/* The argument after the last named one, which a call may lack. */
#define ARGUMENT(last)                                                \
    va_list more;                                                     \
    va_start(more, last);                                             \
    void *argument = va_arg(more, void *);                            \
    va_end(more)

OF_ONE_SIZE(fcntl, open, openat, lseek, pwrite, truncate, ftruncate, off_t)
OF_ONE_SIZE(fcntl64, open64, openat64, lseek64, pwrite64, truncate64, ftruncate64, off64_t)

/* The files that were deleted last. */
#define MOST_DELETED 256
static struct { char path[PATH_MAX]; time_t at; } deleted[MOST_DELETED];
static unsigned deletions;
static pthread_mutex_t deleting = PTHREAD_MUTEX_INITIALIZER;

static void remember_deleted(int fd, const char *path) {
    char folder[PATH_MAX] = "";
    if (path[0] != '/' && !path_of(fd, folder)) return;
    pthread_mutex_lock(&deleting);
    __typeof__(*deleted) *entry = deleted + deletions++ % MOST_DELETED;
    if (snprintf(entry->path, PATH_MAX, "%s%s%s", folder, path[0] == '/' ? "" : "/", path) < PATH_MAX)
        entry->at = time(NULL);
    pthread_mutex_unlock(&deleting);
}

int unlink(const char *path) {
    int result = NEXT(unlink)(path);
    if (!result && is_below_at(AT_FDCWD, path)) remember_deleted(AT_FDCWD, path);
    return result;
}

int unlinkat(int fd, const char *path, int flags) {
    int result = NEXT(unlinkat)(fd, path, flags);
    if (!result && !(flags & AT_REMOVEDIR) && is_below_at(fd, path)) remember_deleted(fd, path);
    return result;
}

static int is_too_new(DIR *folder, const char *name) {
    struct stat status;
    if (!lists_late_s || !has_file_below(dirfd(folder))) return 0;
    if (fstatat(dirfd(folder), name, &status, AT_SYMLINK_NOFOLLOW) || S_ISDIR(status.st_mode)) return 0;
    return time(NULL) - status.st_ctime < lists_late_s;
}

/* The name of the next deleted file of a folder that a listing still shows, or NULL; `at` counts them. */
static const char *next_deleted(DIR *folder, unsigned *at) {
    char path[PATH_MAX];
    if (!lists_late_s || !path_of(dirfd(folder), path) || !is_below(path)) return NULL;
    size_t length = strlen(path);
    for (; *at < MOST_DELETED; ++*at) {
        const char *name = deleted[*at].path + length + 1;
        if (strncmp(deleted[*at].path, path, length) || deleted[*at].path[length] != '/' || strchr(name, '/')) continue;
        if (time(NULL) - deleted[*at].at >= lists_late_s || !faccessat(dirfd(folder), name, F_OK, 0)) continue;
        ++*at;
        return name;
    }
    return NULL;
}

#define READDIR(name, type)                                           \
    struct type *name(DIR *folder) {                                  \
        static __thread DIR *at_end;                                  \
        static __thread unsigned at;                                  \
        static __thread struct type late;                             \
        struct type *entry = NULL;                                    \
        if (at_end != folder) {                                       \
            do entry = NEXT(name)(folder);                            \
            while (entry && is_too_new(folder, entry->d_name));       \
            if (entry) return entry;                                  \
            at_end = folder, at = 0;                                  \
        }                                                             \
        int before = errno;                                           \
        pthread_mutex_lock(&deleting);                                \
        const char *gone = next_deleted(folder, &at);                 \
        if (gone) snprintf(late.d_name, sizeof late.d_name, "%s", gone); \
        pthread_mutex_unlock(&deleting);                              \
        errno = before;                                               \
        if (!gone) return at_end = NULL, NULL;                        \
        late.d_type = DT_REG, late.d_ino = 1;                         \
        return &late;                                                 \
    }
READDIR(readdir, dirent)
READDIR(readdir64, dirent64)
