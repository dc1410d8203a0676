/* Preloaded into a process: its wall clock is ahead of the host's by the nanoseconds in a file, FAKE_CLOCK, which may
   change at any time. Clocks that only go on are left alone, and waits end at the time that they mean. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
#define WALL 1000000000 /* seconds: a time beyond is that of a wall clock, not of one that counts from the host's start */

static const volatile int64_t *ahead;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("FAKE_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED)
        ahead = mapped;
    if (file >= 0)
        close(file);
}

static struct timespec later(struct timespec time, int sign)
{
    int64_t all = time.tv_sec * SECOND + time.tv_nsec + (ahead ? sign * *ahead : 0);
    return (struct timespec){all / SECOND, all % SECOND};
}

int clock_gettime(clockid_t id, struct timespec *time)
{
    int failed = (int)syscall(SYS_clock_gettime, id, time);
    if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        *time = later(*time, 1);
    return failed;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *time = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *kept)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (kept)
        *kept = now.tv_sec;
    return now.tv_sec;
}

/* ---- waits until a time ------------------------------------------------------------------------------------------ */

static void *real(const char *name, const char *version)
{
    void *found = version ? dlvsym(RTLD_NEXT, name, version) : NULL;
    if (!found)
        found = dlsym(RTLD_NEXT, name);
    if (!found)
        abort();
    return found;
}

static struct timespec meant(const struct timespec *end)
{
    return end->tv_sec > WALL ? later(*end, -1) : *end;
}

int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *end)
{
    static int (*wait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    struct timespec host = meant(end);
    if (!wait) /* on x86 the one without a version is that of 1999, whose conditions are others */
        wait = real("pthread_cond_timedwait", "GLIBC_2.3.2");
    return wait(cond, mutex, &host);
}

int sem_timedwait(sem_t *semaphore, const struct timespec *end)
{
    static int (*wait)(sem_t *, const struct timespec *);
    struct timespec host = meant(end);
    if (!wait)
        wait = real("sem_timedwait", NULL);
    return wait(semaphore, &host);
}
