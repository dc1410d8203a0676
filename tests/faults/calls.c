/* Preloaded into a process: records what it writes below one folder, in the order in which it does, and lets one call
   fail. Called by ctypes: calls_record, calls_note, calls_fail, calls_made. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILES 4096

enum { OPENED = 'o', MADE = 'c', WRITTEN = 'w', TRUNCATED = 't', SYNCED = 's', REMOVED = 'u', RENAMED = 'r', LINKED = 'l', NOTED = 'm' };

struct record { char kind[4]; uint32_t path; uint64_t offset; uint64_t data; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* from a call to its record: their order is the true one */
static char below[PATH_MAX];
static size_t below_length;
static int log_file = -1;
static char *paths[FILES]; /* of the files that are open, NULL of those elsewhere */
static long made, fails_at;
static int fails_with, fails_often;
static char fails_only;

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (!found)
        abort();
    return found;
}

static int ours(const char *path)
{
    return log_file >= 0 && path && !strncmp(path, below, below_length)
        && (path[below_length] == '/' || !path[below_length]);
}

static const char *path_of(int file)
{
    return file >= 0 && file < FILES ? paths[file] : NULL;
}

static void note(char kind, const char *path, uint64_t offset, const void *data, uint64_t size)
{
    struct record head = {{kind}, strlen(path), offset, size};
    struct iovec parts[] = {{&head, sizeof head}, {(void *)path, head.path}, {(void *)data, size}};
    if (syscall(SYS_writev, log_file, parts, 3) != (long)(sizeof head + head.path + size))
        abort();
}

/* Whether the call that is about to be made is the one that fails; errno says how. */
static int failing(char kind)
{
    if (fails_only && kind != fails_only)
        return 0;
    made++;
    if (!fails_at || made < fails_at || (made > fails_at && !fails_often))
        return 0;
    errno = fails_with;
    return 1;
}

/* Record from now on what is done below a folder, an absolute path without links. */
void calls_record(const char *folder, const char *log)
{
    strcpy(below, folder);
    below_length = strlen(folder);
    log_file = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* Put something between the records: what has happened up to here. */
void calls_note(const char *name, const char *data, long size)
{
    pthread_mutex_lock(&lock);
    note(NOTED, name, 0, data, size);
    pthread_mutex_unlock(&lock);
}

/* Let the call of this number, counted from 1, of one kind or of all (0), fail, and if `often` all after it. */
void calls_fail(long number, int error, char only, int often)
{
    made = 0;
    fails_at = number;
    fails_with = error;
    fails_only = only;
    fails_often = often;
}

long calls_made(void)
{
    return made;
}

/* ---- files that are opened ------------------------------------------------------------------------------------- */

static int opened(int (*call)(const char *, int, ...), const char *path, int flags, int mode)
{
    if (!ours(path))
        return call(path, flags, mode);
    pthread_mutex_lock(&lock);
    struct stat found;
    int there = !stat(path, &found), file = failing(OPENED) ? -1 : call(path, flags, mode);
    if (file >= 0 && file < FILES) {
        free(paths[file]);
        paths[file] = strdup(path);
        if (!there && flags & O_CREAT)
            note(MADE, path, 0, NULL, 0);
        else if (flags & O_TRUNC)
            note(TRUNCATED, path, 0, NULL, 0);
    }
    pthread_mutex_unlock(&lock);
    return file;
}

#define OPEN(name) \
    int name(const char *path, int flags, ...) \
    { \
        va_list rest; \
        va_start(rest, flags); \
        int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, int) : 0; \
        va_end(rest); \
        return opened((int (*)(const char *, int, ...))real(#name), path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

int close(int file)
{
    pthread_mutex_lock(&lock);
    if (path_of(file)) {
        free(paths[file]);
        paths[file] = NULL;
    }
    int result = REAL(close)(file);
    pthread_mutex_unlock(&lock);
    return result;
}

/* ---- what is done to them -------------------------------------------------------------------------------------- */

static uint64_t place(int file)
{
    struct stat found;
    if (fcntl(file, F_GETFL) & O_APPEND && !fstat(file, &found))
        return found.st_size;
    return lseek(file, 0, SEEK_CUR);
}

/* A call on an open file, and its record once it has succeeded. */
#define DO(file, kind, offset, data, size, type, call) \
    const char *path = path_of(file); \
    if (!path) \
        return call; \
    pthread_mutex_lock(&lock); \
    uint64_t where = offset; \
    type result = failing(kind) ? -1 : call; \
    if (result >= 0) \
        note(kind, path, where, data, size); \
    int error = errno; \
    pthread_mutex_unlock(&lock); \
    errno = error; \
    return result;

ssize_t write(int file, const void *data, size_t size)
{
    DO(file, WRITTEN, place(file), data, result, ssize_t, REAL(write)(file, data, size))
}

ssize_t pwrite(int file, const void *data, size_t size, off_t offset)
{
    DO(file, WRITTEN, offset, data, result, ssize_t, REAL(pwrite)(file, data, size, offset))
}

ssize_t pwrite64(int file, const void *data, size_t size, off_t offset)
{
    DO(file, WRITTEN, offset, data, result, ssize_t, REAL(pwrite)(file, data, size, offset))
}

int ftruncate(int file, off_t size)
{
    DO(file, TRUNCATED, size, NULL, 0, int, REAL(ftruncate)(file, size))
}

int ftruncate64(int file, off_t size)
{
    DO(file, TRUNCATED, size, NULL, 0, int, REAL(ftruncate)(file, size))
}

int fsync(int file)
{
    DO(file, SYNCED, 0, NULL, 0, int, REAL(fsync)(file))
}

int fdatasync(int file)
{
    DO(file, SYNCED, 0, NULL, 0, int, REAL(fdatasync)(file))
}

/* ---- names ----------------------------------------------------------------------------------------------------- */

static int named(char kind, const char *path, const char *other, int result)
{
    int error = errno;
    if (!result)
        note(kind, path, 0, other, other ? strlen(other) : 0);
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

int unlink(const char *path)
{
    if (!ours(path))
        return REAL(unlink)(path);
    pthread_mutex_lock(&lock);
    return named(REMOVED, path, NULL, failing(REMOVED) ? -1 : REAL(unlink)(path));
}

int rename(const char *path, const char *other)
{
    if (!ours(path))
        return REAL(rename)(path, other);
    pthread_mutex_lock(&lock);
    return named(RENAMED, path, other, failing(RENAMED) ? -1 : REAL(rename)(path, other));
}

int linkat(int from, const char *path, int to, const char *other, int flags)
{
    if (!ours(path))
        return REAL(linkat)(from, path, to, other, flags);
    pthread_mutex_lock(&lock);
    return named(LINKED, path, other, failing(LINKED) ? -1 : REAL(linkat)(from, path, to, other, flags));
}

int link(const char *path, const char *other)
{
    return linkat(AT_FDCWD, path, AT_FDCWD, other, 0);
}
