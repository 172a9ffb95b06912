/* Loaded into a writer: the n-th system call of a class on a path below a folder fails, is cut short, or both.
 *
 * Lance makes some calls through libc and some by itself (Rust's rustix), so the calls are caught at the kernel's door: a seccomp
 * filter turns them into a signal, whose handler counts the call, decides, and makes it. The path of a call on a descriptor is the
 * descriptor's own, so nothing has to be tracked. Calls come from many threads: the counter decides, and which call is the n-th
 * may differ from run to run. Everything named `shim_` is for the process itself, by way of ctypes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

enum { WRITE, FSYNC, RENAME, LINK, UNLINK, CREATE, MKDIR, CLASSES };
enum { FAIL, SHORT, SHORT_THEN_FAIL, FAIL_FROM };

/* One system call: its class; which argument is its folder or descriptor; which one the path (none: the descriptor is the file);
 * which one the size that can be cut, and which one the flags in which O_CREAT must stand. -1: it has none. */
static const struct call { int number, class, dir, path, size, flags; } CALLS[] = {
    {SYS_write, WRITE, 0, -1, 2, -1},
    {SYS_pwrite64, WRITE, 0, -1, 2, -1},
    {SYS_writev, WRITE, 0, -1, 2, -1},
    {SYS_pwritev, WRITE, 0, -1, 2, -1},
    {SYS_pwritev2, WRITE, 0, -1, 2, -1},
    {SYS_copy_file_range, WRITE, 2, -1, 4, -1},
    {SYS_sendfile, WRITE, 0, -1, 3, -1},
    {SYS_ftruncate, WRITE, 0, -1, -1, -1},
    {SYS_fallocate, WRITE, 0, -1, -1, -1},
    {SYS_fsync, FSYNC, 0, -1, -1, -1},
    {SYS_fdatasync, FSYNC, 0, -1, -1, -1},
    {SYS_sync_file_range, FSYNC, 0, -1, -1, -1},
    {SYS_renameat, RENAME, 2, 3, -1, -1},
    {SYS_renameat2, RENAME, 2, 3, -1, -1},
    {SYS_linkat, LINK, 2, 3, -1, -1},
    {SYS_unlinkat, UNLINK, 0, 1, -1, -1},
    {SYS_openat, CREATE, 0, 1, -1, 2},
    {SYS_mkdirat, MKDIR, 0, 1, -1, -1},
#ifdef __x86_64__
    {SYS_rename, RENAME, -1, 1, -1, -1},
    {SYS_link, LINK, -1, 1, -1, -1},
    {SYS_unlink, UNLINK, -1, 0, -1, -1},
    {SYS_rmdir, UNLINK, -1, 0, -1, -1},
    {SYS_open, CREATE, -1, 0, -1, 1},
    {SYS_creat, CREATE, -1, 0, -1, -1},
    {SYS_mkdir, MKDIR, -1, 0, -1, -1},
#endif
};
#define KNOWN ((int)(sizeof CALLS / sizeof *CALLS))

static char folder[PATH_MAX];
static atomic_int watching;
static int failing_class, failing_mode, failing_errno;
static long failing_nth;
static atomic_long counts[CLASSES];
static char cut_file[PATH_MAX]; /* the file whose next write fails */
static atomic_int cut_pending;

#define LOGGED 8192
static struct { int class, failed; char path[512]; } seen[LOGGED];
static atomic_long seen_count;

/* The one place from which the filter lets the calls through. */
long shim_syscall(long number, long a, long b, long c, long d, long e, long f);
extern const char shim_after[];
#if defined __x86_64__
__asm__(".text\n.globl shim_syscall\nshim_syscall:\n mov %rdi,%rax\n mov %rsi,%rdi\n mov %rdx,%rsi\n mov %rcx,%rdx\n"
        " mov %r8,%r10\n mov %r9,%r8\n mov 8(%rsp),%r9\n syscall\n.globl shim_after\nshim_after:\n ret\n");
#define NUMBER(machine) ((machine)->gregs[REG_RAX])
#define RESULT(machine) ((machine)->gregs[REG_RAX])
static const int ARGUMENTS[] = {REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9};
#define ARGUMENT(machine, at) ((machine)->gregs[ARGUMENTS[at]])
#elif defined __aarch64__
__asm__(".text\n.globl shim_syscall\nshim_syscall:\n mov x8,x0\n mov x0,x1\n mov x1,x2\n mov x2,x3\n mov x3,x4\n mov x4,x5\n"
        " mov x5,x6\n svc #0\n.globl shim_after\nshim_after:\n ret\n");
#define NUMBER(machine) ((machine)->regs[8])
#define RESULT(machine) ((machine)->regs[0])
#define ARGUMENT(machine, at) ((machine)->regs[at])
#else
#error "no registers known for this processor"
#endif

/* The path that a call speaks of, as an absolute one. */
static int resolved(int dir, const char *name, char *path) {
    char link[64], base[PATH_MAX];
    if (name && name[0] == '/') {
        snprintf(path, PATH_MAX, "%s", name);
        return 1;
    }
    if (dir == AT_FDCWD)
        snprintf(link, sizeof link, "/proc/self/cwd");
    else
        snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
    ssize_t size = readlink(link, base, sizeof base - 1);
    if (size < 0)
        return 0;
    base[size] = 0;
    snprintf(path, PATH_MAX, "%.2000s%s%.2000s", base, name ? "/" : "", name ? name : "");
    return 1;
}

enum { GO_ON, CUT, REFUSED };

/* Count one call, and say what is to become of it. */
static int verdict(const struct call *call, const long *arguments) {
    char path[PATH_MAX];
    if (!atomic_load(&watching) || (call->flags >= 0 && !(arguments[call->flags] & O_CREAT)))
        return GO_ON;
    int dir = call->dir < 0 ? AT_FDCWD : (int)arguments[call->dir];
    const char *name = call->path < 0 ? NULL : (const char *)arguments[call->path];
    if (!resolved(dir, name, path) || strncmp(path, folder, strlen(folder)) != 0)
        return GO_ON;
    int told = GO_ON;
    long nth = atomic_fetch_add(&counts[call->class], 1) + 1;
    if (call->class == WRITE && atomic_load(&cut_pending) && strcmp(path, cut_file) == 0 && atomic_exchange(&cut_pending, 0))
        told = REFUSED;
    else if (call->class == failing_class && (nth == failing_nth || (failing_mode == FAIL_FROM && nth > failing_nth))) {
        told = call->size < 0 || failing_mode == FAIL || failing_mode == FAIL_FROM ? REFUSED : CUT;
        if (told == CUT && failing_mode == SHORT_THEN_FAIL) {
            strcpy(cut_file, path);
            atomic_store(&cut_pending, 1);
        }
    }
    long at = atomic_fetch_add(&seen_count, 1);
    if (at < LOGGED) {
        seen[at].class = call->class;
        seen[at].failed = told != GO_ON;
        snprintf(seen[at].path, sizeof seen[at].path, "%.500s", path);
    }
    return told;
}

/* A cut call does half of what it was asked for: half the bytes, or half of the first part of several. */
static long cut(const struct call *call, long *arguments) {
    struct iovec part;
    if (call->number == SYS_writev || call->number == SYS_pwritev || call->number == SYS_pwritev2) {
        part = *(const struct iovec *)arguments[1];
        part.iov_len /= 2;
        arguments[1] = (long)&part;
        arguments[2] = 1;
    } else if (call->class == WRITE && arguments[call->size] > 1 << 20)
        arguments[call->size] = 64; /* copies ask for far more than there is */
    else
        arguments[call->size] /= 2;
    const long *a = arguments;
    return shim_syscall(call->number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static void trapped(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    mcontext_t *machine = &((ucontext_t *)context)->uc_mcontext;
    long a[6], number = (long)NUMBER(machine);
    int before = errno;
    for (int at = 0; at < 6; at++)
        a[at] = (long)ARGUMENT(machine, at);
    int at = 0;
    while (at < KNOWN - 1 && CALLS[at].number != number)
        at++;
    int told = verdict(&CALLS[at], a);
    if (told == REFUSED)
        RESULT(machine) = -failing_errno;
    else
        RESULT(machine) = told == CUT ? cut(&CALLS[at], a) : shim_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    errno = before;
}

/* -- for the process itself */

/* Catch the calls from here on, in all threads. Nonzero: the kernel does not let us. */
int shim_install(void) {
    uint64_t ours = (uint64_t)(uintptr_t)shim_after;
    struct sock_filter program[8 + 2 * KNOWN] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)ours, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer) + 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(ours >> 32), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    };
    int size = 6;
    for (int at = 0; at < KNOWN; at++) {
        program[size++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CALLS[at].number, 0, 1);
        program[size++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
    }
    program[size++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog filter = {.len = (unsigned short)size, .filter = program};
    struct sigaction action = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART};
    if (sigaction(SIGSYS, &action, NULL) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return -1;
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter);
}

void shim_arm(const char *below, int class, int mode, long nth, int error) {
    atomic_store(&watching, 0);
    snprintf(folder, sizeof folder, "%s", below);
    failing_class = class;
    failing_mode = mode;
    failing_nth = nth;
    failing_errno = error;
    for (int at = 0; at < CLASSES; at++)
        atomic_store(&counts[at], 0);
    atomic_store(&cut_pending, 0);
    atomic_store(&seen_count, 0);
    atomic_store(&watching, 1);
}

void shim_disarm(void) { atomic_store(&watching, 0); }

/* The class of the at-th counted call, or -1 after the last one. */
int shim_call(long at, int *failed, const char **path) {
    if (at >= atomic_load(&seen_count) || at >= LOGGED)
        return -1;
    *failed = seen[at].failed;
    *path = seen[at].path;
    return seen[at].class;
}
