/* Faults at file operations: an LD_PRELOAD library.

   Operations on files and directories beneath one directory are counted, in all threads of a process that was
   armed. The plan and what came of it are in a page that parent and forked children share: the parent writes the
   plan, forks, the child arms itself, and the parent reads the count after the child's death. A program that is
   executed by an armed process starts unarmed. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { RECORD, BEFORE, AFTER, TORN, FAIL, FULL, SHORT, DELAY };
enum { WRITE = 1, SYNC = 2, TRUNCATE = 4, CREATE = 8, RENAME = 16, UNLINK = 32, READ = 64, MODE = 128 };
enum { OTHER, DATABASE, WAL, SHM, LOCK };

#define MOST_RECORDS 16384

struct record {
    unsigned char kind, file;
    unsigned short bytes;
};

/* The layout is repeated in shim.py. */
struct plan {
    long mode, at, until, argument;
    long counted; /* the kinds of operations that count */
    long kinds;   /* those of them that the fault strikes: the first one from `at` on */
    long count;   /* operations so far */
    long struck;  /* the first that the fault struck, 0 if none */
    long struck_kind, struck_file;
    long strikes; /* how many it struck */
    char root[256];
    struct record records[MOST_RECORDS];
};

static struct plan *plan;
static int armed;

__attribute__((constructor)) static void make_plan(void) {
    plan = mmap(NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (plan == MAP_FAILED) plan = NULL;
}

struct plan *shim_plan(void) { return plan; }
void shim_arm(void) { armed = plan != NULL; }
void shim_disarm(void) { armed = 0; }

/* Which operations count */

static int beneath(const char *path) {
    size_t length = strlen(plan->root);
    return length && strncmp(path, plan->root, length) == 0 && (path[length] == '/' || path[length] == 0);
}

static int path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return 1;
}

static int ends_with(const char *path, const char *tail) {
    size_t length = strlen(path), wanted = strlen(tail);
    return length >= wanted && strcmp(path + length - wanted, tail) == 0;
}

static int file_of(const char *path) {
    if (ends_with(path, ".db")) return DATABASE;
    if (ends_with(path, ".db-wal")) return WAL;
    if (ends_with(path, ".db-shm")) return SHM;
    if (ends_with(path, ".lock")) return LOCK;
    return OTHER;
}

__attribute__((noreturn)) static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

/* Count one operation; whether the fault strikes it. */
static int strikes(int kind, const char *path, size_t bytes) {
    long count = __atomic_add_fetch(&plan->count, 1, __ATOMIC_SEQ_CST);
    if (plan->mode == RECORD) {
        if (count <= MOST_RECORDS) {
            struct record *one = &plan->records[count - 1];
            one->kind = kind;
            one->file = file_of(path);
            one->bytes = bytes > 65535 ? 65535 : bytes;
        }
        return 0;
    }
    if (plan->mode == FAIL && plan->until && plan->struck && count >= plan->until) die();
    if (count < plan->at || !(plan->kinds & kind)) return 0;
    if (plan->mode == FULL) {
        if (plan->until && count >= plan->until) return 0;
        __atomic_add_fetch(&plan->strikes, 1, __ATOMIC_SEQ_CST);
    } else if (__atomic_add_fetch(&plan->strikes, 1, __ATOMIC_SEQ_CST) != 1) {
        return 0;
    }
    long none = 0;
    if (__atomic_compare_exchange_n(&plan->struck, &none, count, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        plan->struck_kind = kind;
        plan->struck_file = file_of(path);
    }
    return 1;
}

static int fd_strikes(int kind, int fd, size_t bytes) {
    char path[PATH_MAX];
    if (!armed || !(plan->counted & kind) || !path_of(fd, path) || !beneath(path)) return 0;
    return strikes(kind, path, bytes);
}

static int path_strikes(int kind, int directory, const char *name) {
    char path[2 * PATH_MAX + 2];
    if (!armed || !(plan->counted & kind)) return 0;
    if (name[0] == '/') {
        snprintf(path, sizeof path, "%s", name);
    } else {
        char base[PATH_MAX];
        if (directory == AT_FDCWD ? !getcwd(base, sizeof base) : !path_of(directory, base)) return 0;
        snprintf(path, sizeof path, "%s/%s", base, name);
    }
    return beneath(path) && strikes(kind, path, 0);
}

/* What a fault does */

static void wait_a_while(void) {
    struct timespec length = {plan->argument / 1000000, plan->argument % 1000000 * 1000};
    nanosleep(&length, NULL);
}

/* How much of a write of so many bytes is done: less than all of it; an odd plan cuts at a sector. */
static size_t part_of(size_t bytes) {
    if (!bytes) return 0;
    size_t part = (size_t)(plan->argument / 2) % bytes;
    return plan->argument % 2 ? part - part % 512 : part;
}

/* Before an operation that was struck: 1 if it fails, with errno set. */
static int fails(int struck) {
    if (!struck) return 0;
    switch (plan->mode) {
    case BEFORE:
    case TORN: die();
    case FAIL: errno = EIO; return 1;
    case FULL: errno = ENOSPC; return 1;
    case DELAY: wait_a_while(); return 0;
    default: return 0;
    }
}

static void afterwards(int struck) {
    if (struck && plan->mode == AFTER) die();
}

#define NEXT(type, name, ...)                                                                                  \
    static type (*real)(__VA_ARGS__);                                                                          \
    if (!real) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

#define PASS(type, struck, call)                                                                               \
    do {                                                                                                       \
        int hit_here = (struck);                                                                               \
        if (fails(hit_here)) return -1;                                                                        \
        type result = call;                                                                                    \
        afterwards(hit_here);                                                                                  \
        return result;                                                                                         \
    } while (0)

/* A write can also be done in part: and then the process dies, it is told so, or it gets an error. */
#define PASS_WRITE(struck, bytes, whole, in_part)                                                              \
    do {                                                                                                       \
        int hit = (struck);                                                                                    \
        size_t part = hit ? part_of(bytes) : 0;                                                                \
        if (hit && plan->mode == TORN) {                                                                       \
            if (part) in_part;                                                                                 \
            die();                                                                                             \
        }                                                                                                      \
        if (hit && plan->mode == SHORT && (bytes) > 1) {                                                       \
            part = part ? part : 1;                                                                            \
            return in_part;                                                                                    \
        }                                                                                                      \
        if (hit && plan->mode == FULL && plan->strikes == 1 && part) return in_part;                           \
        if (hit && plan->mode == FAIL && part) in_part;                                                        \
        PASS(ssize_t, hit, whole);                                                                             \
    } while (0)

/* The operations */

ssize_t write(int fd, const void *data, size_t bytes) {
    NEXT(ssize_t, "write", int, const void *, size_t);
    PASS_WRITE(fd_strikes(WRITE, fd, bytes), bytes, real(fd, data, bytes), real(fd, data, part));
}

#define PWRITE(name)                                                                                           \
    ssize_t name(int fd, const void *data, size_t bytes, off_t at) {                                           \
        NEXT(ssize_t, #name, int, const void *, size_t, off_t);                                                \
        PASS_WRITE(fd_strikes(WRITE, fd, bytes), bytes, real(fd, data, bytes, at), real(fd, data, part, at));  \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

ssize_t writev(int fd, const struct iovec *pieces, int count) {
    NEXT(ssize_t, "writev", int, const struct iovec *, int);
    PASS(ssize_t, fd_strikes(WRITE, fd, 0), real(fd, pieces, count));
}

ssize_t read(int fd, void *data, size_t bytes) {
    NEXT(ssize_t, "read", int, void *, size_t);
    PASS(ssize_t, fd_strikes(READ, fd, bytes), real(fd, data, bytes));
}

#define PREAD(name)                                                                                            \
    ssize_t name(int fd, void *data, size_t bytes, off_t at) {                                                 \
        NEXT(ssize_t, #name, int, void *, size_t, off_t);                                                      \
        PASS(ssize_t, fd_strikes(READ, fd, bytes), real(fd, data, bytes, at));                                 \
    }
PREAD(pread)
PREAD(pread64)

#define ON_DESCRIPTOR(name)                                                                                    \
    int name(int fd) {                                                                                         \
        NEXT(int, #name, int);                                                                                 \
        PASS(int, fd_strikes(SYNC, fd, 0), real(fd));                                                          \
    }
ON_DESCRIPTOR(fsync)
ON_DESCRIPTOR(fdatasync)
ON_DESCRIPTOR(syncfs)

#define FTRUNCATE(name)                                                                                        \
    int name(int fd, off_t size) {                                                                             \
        NEXT(int, #name, int, off_t);                                                                          \
        PASS(int, fd_strikes(TRUNCATE, fd, 0), real(fd, size));                                                \
    }
FTRUNCATE(ftruncate)
FTRUNCATE(ftruncate64)

#define PATH_TRUNCATE(name)                                                                                    \
    int name(const char *path, off_t size) {                                                                   \
        NEXT(int, #name, const char *, off_t);                                                                 \
        PASS(int, path_strikes(TRUNCATE, AT_FDCWD, path), real(path, size));                                   \
    }
PATH_TRUNCATE(truncate)
PATH_TRUNCATE(truncate64)

int rename(const char *from, const char *to) {
    NEXT(int, "rename", const char *, const char *);
    PASS(int, path_strikes(RENAME, AT_FDCWD, to), real(from, to));
}

int renameat(int from_directory, const char *from, int to_directory, const char *to) {
    NEXT(int, "renameat", int, const char *, int, const char *);
    PASS(int, path_strikes(RENAME, to_directory, to), real(from_directory, from, to_directory, to));
}

int renameat2(int from_directory, const char *from, int to_directory, const char *to, unsigned flags) {
    NEXT(int, "renameat2", int, const char *, int, const char *, unsigned);
    PASS(int, path_strikes(RENAME, to_directory, to), real(from_directory, from, to_directory, to, flags));
}

/* A second name and a symlink need room, as a new file does. */
int link(const char *from, const char *to) {
    NEXT(int, "link", const char *, const char *);
    PASS(int, path_strikes(CREATE, AT_FDCWD, to), real(from, to));
}

int linkat(int from_directory, const char *from, int to_directory, const char *to, int flags) {
    NEXT(int, "linkat", int, const char *, int, const char *, int);
    PASS(int, path_strikes(CREATE, to_directory, to), real(from_directory, from, to_directory, to, flags));
}

int symlink(const char *target, const char *path) {
    NEXT(int, "symlink", const char *, const char *);
    PASS(int, path_strikes(CREATE, AT_FDCWD, path), real(target, path));
}

int symlinkat(const char *target, int directory, const char *path) {
    NEXT(int, "symlinkat", const char *, int, const char *);
    PASS(int, path_strikes(CREATE, directory, path), real(target, directory, path));
}

int chmod(const char *path, mode_t mode) {
    NEXT(int, "chmod", const char *, mode_t);
    PASS(int, path_strikes(MODE, AT_FDCWD, path), real(path, mode));
}

int fchmod(int fd, mode_t mode) {
    NEXT(int, "fchmod", int, mode_t);
    PASS(int, fd_strikes(MODE, fd, 0), real(fd, mode));
}

int fchmodat(int directory, const char *path, mode_t mode, int flags) {
    NEXT(int, "fchmodat", int, const char *, mode_t, int);
    PASS(int, path_strikes(MODE, directory, path), real(directory, path, mode, flags));
}

int unlink(const char *path) {
    NEXT(int, "unlink", const char *);
    PASS(int, path_strikes(UNLINK, AT_FDCWD, path), real(path));
}

int unlinkat(int directory, const char *path, int flags) {
    NEXT(int, "unlinkat", int, const char *, int);
    PASS(int, path_strikes(UNLINK, directory, path), real(directory, path, flags));
}

int rmdir(const char *path) {
    NEXT(int, "rmdir", const char *);
    PASS(int, path_strikes(UNLINK, AT_FDCWD, path), real(path));
}

int mkdir(const char *path, mode_t mode) {
    NEXT(int, "mkdir", const char *, mode_t);
    PASS(int, path_strikes(CREATE, AT_FDCWD, path), real(path, mode));
}

int mkdirat(int directory, const char *path, mode_t mode) {
    NEXT(int, "mkdirat", int, const char *, mode_t);
    PASS(int, path_strikes(CREATE, directory, path), real(directory, path, mode));
}

/* Opening counts if it makes the file or empties it. */
static int changes(int directory, const char *path, int flags) {
    if (flags & O_TRUNC) return 1;
    return (flags & O_CREAT) && faccessat(directory, path, F_OK, 0) != 0;
}

static mode_t mode_in(int flags, va_list rest) {
    return flags & (O_CREAT | O_TMPFILE) ? (mode_t)va_arg(rest, int) : 0;
}

#define OPEN(name)                                                                                             \
    int name(const char *path, int flags, ...) {                                                               \
        NEXT(int, #name, const char *, int, ...);                                                              \
        va_list rest;                                                                                          \
        va_start(rest, flags);                                                                                 \
        mode_t mode = mode_in(flags, rest);                                                                    \
        va_end(rest);                                                                                          \
        int struck = armed && changes(AT_FDCWD, path, flags) && path_strikes(CREATE, AT_FDCWD, path);          \
        PASS(int, struck, real(path, flags, mode));                                                            \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                                           \
    int name(int directory, const char *path, int flags, ...) {                                                \
        NEXT(int, #name, int, const char *, int, ...);                                                         \
        va_list rest;                                                                                          \
        va_start(rest, flags);                                                                                 \
        mode_t mode = mode_in(flags, rest);                                                                    \
        va_end(rest);                                                                                          \
        int struck = armed && changes(directory, path, flags) && path_strikes(CREATE, directory, path);        \
        PASS(int, struck, real(directory, path, flags, mode));                                                 \
    }
OPENAT(openat)
OPENAT(openat64)
