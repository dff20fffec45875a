/* Preloaded by the campaign of workers: a clock that is off by VSWEEP_SKEW_S seconds, and directories that show an entry only
   VSWEEP_LATE_MS milliseconds after it was made, as a network file system may. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long number(const char *name) {
    const char *text = getenv(name);
    return text ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int failed = syscall(SYS_clock_gettime, clock, time);
    if (!failed && clock == CLOCK_REALTIME) time->tv_sec += number("VSWEEP_SKEW_S");
    return failed;
}

static int is_late(DIR *folder, const char *name) {
    long late_ms = number("VSWEEP_LATE_MS");
    struct statx made;
    struct timespec now;
    if (!late_ms || !strcmp(name, ".") || !strcmp(name, "..")) return 0;
    if (statx(dirfd(folder), name, AT_SYMLINK_NOFOLLOW, STATX_BTIME, &made) || !(made.stx_mask & STATX_BTIME)) return 0;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
    return (now.tv_sec - made.stx_btime.tv_sec) * 1000 + (now.tv_nsec - (long)made.stx_btime.tv_nsec) / 1000000 < late_ms;
}

struct dirent64 *readdir64(DIR *folder) {
    struct dirent64 *(*original)(DIR *) = (struct dirent64 *(*)(DIR *))dlsym(RTLD_NEXT, "readdir64");
    struct dirent64 *entry;
    while ((entry = original(folder)) && is_late(folder, entry->d_name)) {}
    return entry;
}

struct dirent *readdir(DIR *folder) {
    struct dirent *(*original)(DIR *) = (struct dirent *(*)(DIR *))dlsym(RTLD_NEXT, "readdir");
    struct dirent *entry;
    while ((entry = original(folder)) && is_late(folder, entry->d_name)) {}
    return entry;
}
