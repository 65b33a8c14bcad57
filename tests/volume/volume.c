/* Gives the files below the folder $VOLUME the ways of a Databricks volume, for the process that preloads this library.

   A file cannot be renamed, linked, synced, locked, appended to, or changed in place, and a new file shows in a listing
   some seconds late ($VOLUME_LISTS_LATE_S). The process's children do not preload it: Spark reaches a volume without
   the mount. Source: ../../docs/adr/0033-what-differs-by-workspace.md. */

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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

static int has_file_below(int fd) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_below(path);
}

static int refuse(int error) {
    errno = error;
    return -1;
}

int rename(const char *from, const char *to) {
    return is_below(from) || is_below(to) ? refuse(ENOSYS) : NEXT(rename)(from, to);
}

int renameat(int from_fd, const char *from, int to_fd, const char *to) {
    return is_below(from) || is_below(to) ? refuse(ENOSYS) : NEXT(renameat)(from_fd, from, to_fd, to);
}

int link(const char *from, const char *to) {
    return is_below(from) || is_below(to) ? refuse(ENOSYS) : NEXT(link)(from, to);
}

int linkat(int from_fd, const char *from, int to_fd, const char *to, int flags) {
    return is_below(from) || is_below(to) ? refuse(ENOSYS) : NEXT(linkat)(from_fd, from, to_fd, to, flags);
}

int symlink(const char *target, const char *path) {
    return is_below(path) ? refuse(ENOSYS) : NEXT(symlink)(target, path);
}

ssize_t copy_file_range(int from, off64_t *at, int to, off64_t *to_at, size_t length, unsigned flags) {
    if (has_file_below(from) || has_file_below(to)) return refuse(ENOSYS);
    return NEXT(copy_file_range)(from, at, to, to_at, length, flags);
}

int fsync(int fd) { return has_file_below(fd) ? refuse(EPERM) : NEXT(fsync)(fd); }

int fdatasync(int fd) { return has_file_below(fd) ? refuse(EPERM) : NEXT(fdatasync)(fd); }

int flock(int fd, int operation) { return has_file_below(fd) ? refuse(ENOSYS) : NEXT(flock)(fd, operation); }

/* Whether to refuse the opening of a file: to append, or to change what is in it. */
static int changes_in_place(const char *path, int flags) {
    return is_below(path) && (flags & O_ACCMODE) != O_RDONLY && ((flags & O_APPEND) || !(flags & (O_TRUNC | O_EXCL)));
}

#define OPEN(name)                                                        \
    int name(const char *path, int flags, ...) {                          \
        va_list more;                                                     \
        va_start(more, flags);                                            \
        mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;         \
        va_end(more);                                                     \
        if (changes_in_place(path, flags)) return refuse(EPERM);          \
        return NEXT(name)(path, flags, mode);                             \
    }
#undef open
#undef open64
OPEN(open)
OPEN(open64)

static int is_too_new(DIR *folder, const char *name) {
    struct stat status;
    if (!lists_late_s || !has_file_below(dirfd(folder)) || name[0] == '.') return 0;
    if (fstatat(dirfd(folder), name, &status, AT_SYMLINK_NOFOLLOW) || S_ISDIR(status.st_mode)) return 0;
    return time(NULL) - status.st_ctime < lists_late_s;
}

#define READDIR(name, type)                                               \
    struct type *name(DIR *folder) {                                      \
        struct type *entry;                                               \
        do entry = NEXT(name)(folder);                                    \
        while (entry && is_too_new(folder, entry->d_name));               \
        return entry;                                                     \
    }
READDIR(readdir, dirent)
READDIR(readdir64, dirent64)
