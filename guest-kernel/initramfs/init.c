// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The guest's init: mounts what a small system needs, then serves a console.
 *
 * It runs the command given as report_delay.run= on the kernel command line,
 * if any, then every line that comes in on the console, each by busybox's
 * shell. What a harness reads is framed, one frame a line:
 *
 *   @ready RELEASE           once, when commands are taken
 *   @begin N                 command N starts; its output follows
 *   @end N STATUS            command N ended; STATUS is its exit status
 *
 * Background jobs of a command ("memhog 64 &") live on after @end. The guest
 * powers off on the line "poweroff" and restarts on "reboot".
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define LINE_BYTES 4096

static void die(const char *what)
{
    fprintf(stderr, "init: %s: %s\n", what, strerror(errno));
    sync();
    reboot(RB_POWER_OFF);
    _exit(1);
}

static void mount_on(const char *type, const char *where)
{
    mkdir(where, 0755);
    if (mount(type, where, type, 0, NULL) && errno != EBUSY) {
        die(where);
    }
}

/* The console as a plain byte pipe: no echo, no editing, no CR added. */
static void plain_console(void)
{
    struct termios t;

    if (tcgetattr(STDIN_FILENO, &t) == 0) {
        cfmakeraw(&t);
        t.c_lflag |= ISIG;
        tcsetattr(STDIN_FILENO, TCSANOW, &t);
    }
}

static void run(const char *command)
{
    static unsigned int count;
    unsigned int number = ++count;
    int status = 0;
    pid_t shell, done;

    printf("@begin %u\n", number);
    shell = fork();
    if (shell < 0) {
        die("fork");
    }
    if (shell == 0) {
        int null = open("/dev/null", O_RDONLY);

        dup2(null, STDIN_FILENO);
        setsid();
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    /* Orphans of earlier commands end here too: reap until ours comes. */
    do {
        done = wait(&status);
    } while (done != shell && !(done < 0 && errno == ECHILD));
    printf("@end %u %d\n", number,
           WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

/* The value of report_delay.run= on the kernel command line, or NULL. */
static char *command_of_boot(void)
{
    static char line[LINE_BYTES];
    static const char key[] = "report_delay.run=";
    ssize_t got;
    char *start, *end;
    int fd = open("/proc/cmdline", O_RDONLY);

    got = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);
    if (fd >= 0) {
        close(fd);
    }
    if (got <= 0) {
        return NULL;
    }
    line[got] = '\0';
    start = strstr(line, key);
    if (!start) {
        return NULL;
    }
    start += sizeof(key) - 1;
    /* Quoted by the boot loader as "report_delay.run=a b c", or one word. */
    end = strpbrk(start, start - line > (long)sizeof(key) - 1 &&
                         start[-(long)sizeof(key)] == '"' ? "\"\n" : " \n");
    if (end) {
        *end = '\0';
    }
    return start;
}

int main(void)
{
    static char line[LINE_BYTES];
    struct utsname uts;
    char *command;

    mount_on("proc", "/proc");
    mount_on("sysfs", "/sys");
    mount_on("devtmpfs", "/dev");
    mount_on("tmpfs", "/tmp");
    setenv("PATH", "/bin", 1);
    plain_console();
    setvbuf(stdout, NULL, _IONBF, 0);

    uname(&uts);
    command = command_of_boot();
    if (command) {
        run(command);
    }
    printf("@ready %s\n", uts.release);

    while (fgets(line, sizeof(line), stdin)) {
        line[strcspn(line, "\r\n")] = '\0';
        if (!strcmp(line, "poweroff") || !strcmp(line, "reboot")) {
            sync();
            reboot(line[0] == 'p' ? RB_POWER_OFF : RB_AUTOBOOT);
        } else if (line[0]) {
            run(line);
        }
    }
    die("console closed");
}
