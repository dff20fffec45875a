/* Preloaded by the campaign of disks: below VSWEEP_FAULT_UNDER, the VSWEEP_FAULT_AT-th operation that makes or changes a file fails with
   the error number VSWEEP_FAULT_ERRNO, and with VSWEEP_FAULT_LASTS all after it. With error number 0 writes end after half of their
   bytes instead, which is no failure. How many operations there were is written to VSWEEP_FAULT_COUNT. Servers are left alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static char under[PATH_MAX], count[PATH_MAX];
static long at, error, lasts;
static atomic_long seen;

static long number(const char *name) {
    const char *text = getenv(name);
    return text ? atol(text) : 0;
}

__attribute__((constructor)) static void begin(void) {
    char program[PATH_MAX] = "";
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    const char *name = length > 0 ? strrchr(program, '/') : NULL;
    if (!name || strcmp(name, "/vsweep") || !getenv("VSWEEP_FAULT_UNDER")) return;
    snprintf(under, sizeof under, "%s", getenv("VSWEEP_FAULT_UNDER"));
    snprintf(count, sizeof count, "%s", getenv("VSWEEP_FAULT_COUNT"));
    at = number("VSWEEP_FAULT_AT");
    error = number("VSWEEP_FAULT_ERRNO");
    lasts = number("VSWEEP_FAULT_LASTS");
    unsetenv("LD_PRELOAD");
    unsetenv("VSWEEP_FAULT_UNDER");
}

__attribute__((destructor)) static void end(void) {
    FILE *file = *count ? fopen(count, "w") : NULL;
    *under = 0;
    if (file) {
        fprintf(file, "%ld\n", (long)seen);
        fclose(file);
    }
}

/* Whether this operation on a path is the one. */
static int strikes(const char *path) {
    if (!*under || strncmp(path, under, strlen(under))) return 0;
    long now = ++seen;
    return at && (lasts ? now >= at : now == at);
}

static int strikes_on(int fd) {
    char link[64], path[PATH_MAX] = "";
    int before = errno;
    if (!*under) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int is_known = readlink(link, path, sizeof path - 1) > 0;
    errno = before;
    return is_known && strikes(path);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FAIL_IF(struck) if (error && (struck)) { errno = error; return -1; }

ssize_t write(int fd, const void *bytes, size_t length) {
    if (strikes_on(fd)) {
        FAIL_IF(1);
        if (length > 1) length /= 2;
    }
    return REAL(write)(fd, bytes, length);
}

ssize_t writev(int fd, const struct iovec *parts, int number) {
    if (strikes_on(fd)) {
        FAIL_IF(1);
        if (number > 1) number = 1;
    }
    return REAL(writev)(fd, parts, number);
}

int fsync(int fd) {
    FAIL_IF(strikes_on(fd));
    return REAL(fsync)(fd);
}

int fdatasync(int fd) {
    FAIL_IF(strikes_on(fd));
    return REAL(fdatasync)(fd);
}

int rename(const char *from, const char *to) {
    FAIL_IF(strikes(to));
    return REAL(rename)(from, to);
}

int mkdir(const char *path, mode_t mode) {
    FAIL_IF(strikes(path));
    return REAL(mkdir)(path, mode);
}

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest); \
        FAIL_IF((flags & (O_CREAT | O_WRONLY | O_RDWR)) && strikes(path)); \
        return REAL(name)(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)
