// measure COMMAND [ARG...]: runs it with its output thrown away and prints three numbers: CPU time
// in microseconds, peak resident memory in KiB, exit status. A process of its own because the
// kernel counts the memory of the forking process into the child's peak; from Python that would be
// Python's.
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static long long microseconds(struct timeval t) {
    return (long long)t.tv_sec * 1000000 + (long long)t.tv_usec;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fputs("usage: measure COMMAND [ARG...]\n", stderr);
        return 2;
    }
    pid_t child = fork();
    if (child == 0) {
        int nowhere = open("/dev/null", O_RDWR);
        if (nowhere >= 0) {
            dup2(nowhere, STDOUT_FILENO);
            dup2(nowhere, STDERR_FILENO);
        }
        execvp(argv[1], argv + 1);
        _exit(127);
    }
    int status;
    struct rusage used;
    if (child < 0 || wait4(child, &status, 0, &used) != child) {
        perror("measure");
        return 2;
    }
    printf("%lld %ld %d\n", microseconds(used.ru_utime) + microseconds(used.ru_stime),
           used.ru_maxrss, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    return 0;
}
