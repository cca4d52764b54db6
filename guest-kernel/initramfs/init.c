// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The guest's init: mounts what a small system needs, then serves a console.
 *
 * It runs the command given as report_delay.run= on the kernel command line,
 * if any, then every line that comes in on the console, each by busybox's
 * shell. report_delay.console=ttyS1 takes another port than the kernel's
 * console, so that its messages come between no two of ours. What a harness
 * reads is framed, one frame a line:
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

/*
 * The value of KEY=value or "KEY=value with spaces" on the kernel command
 * line, in memory of the caller's; NULL if it is not there.
 */
static char *boot_option(const char *key)
{
    char line[LINE_BYTES];
    char *start = line, *end;
    FILE *file = fopen("/proc/cmdline", "r");

    if (!file || !fgets(line, sizeof(line), file)) {
        die("/proc/cmdline");
    }
    fclose(file);
    do {
        start = strstr(start, key);
        if (!start) {
            return NULL;
        }
        start += strlen(key);
    } while (*start != '=');
    end = start - strlen(key) > line && start[-(long)strlen(key) - 1] == '"' ?
          strchr(start, '"') : strpbrk(start, " \n");
    if (end) {
        *end = '\0';
    }
    return strdup(start + 1);
}

/* Commands come and answers go through this port from here on. */
static void open_console(const char *port)
{
    char path[64];
    int fd;

    snprintf(path, sizeof(path), "/dev/%s", port);
    fd = open(path, O_RDWR | O_NOCTTY);
    if (fd < 0) {
        die(path);
    }
    dup2(fd, STDIN_FILENO);
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
}

int main(void)
{
    static char line[LINE_BYTES];
    struct utsname uts;
    char *command, *port;

    mount_on("proc", "/proc");
    mount_on("sysfs", "/sys");
    mount_on("devtmpfs", "/dev");
    mount_on("tmpfs", "/tmp");
    setenv("PATH", "/bin", 1);
    port = boot_option("report_delay.console");
    if (port) {
        open_console(port);
    }
    plain_console();
    setvbuf(stdout, NULL, _IONBF, 0);

    uname(&uts);
    command = boot_option("report_delay.run");
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
