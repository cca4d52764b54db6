/*
 * What the kernel says of memory, and what it never should say
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <fcntl.h>
#include <unistd.h>
#include <glib/gstdio.h>
#include <gio/gio.h>

#include "meminfo.h"
#include "proc-file.h"
#include "psi.h"
#include "scan.h"

#define MEMINFO                                                                          \
    "MemTotal:       24684084 kB\n"                                                      \
    "MemFree:        18287972 kB\n"                                                      \
    "MemAvailable:   23488836 kB\n"                                                      \
    "Buffers:          138120 kB\n"

#define PSI                                                                              \
    "some avg10=0.00 avg60=1.20 avg300=0.00 total=123456\n"                              \
    "full avg10=0.00 avg60=0.00 avg300=0.00 total=7890\n"

#define ZONE(high)                                                                       \
    "Node 0, zone   Normal\n"                                                            \
    "  pages free     100\n"                                                             \
    "        boost    0\n"                                                               \
    "        min      10\n"                                                              \
    "        low      12\n"                                                              \
    "        high     " high "\n"                                                        \
    "  pagesets\n"                                                                       \
    "    cpu: 0\n"                                                                       \
    "              count:    0\n"                                                        \
    "              high:  378\n"

static void test_numbers(void)
{
    static const struct {
        const char *text;
        bool good;
        uint64_t value;
    } cases[] = {
        { "0", true, 0 },
        { "18446744073709551615", true, UINT64_MAX },
        { "18446744073709551616", false, 0 },
        { "99999999999999999999999", false, 0 },
        { "", false, 0 },
        { "-1", false, 0 },
        { "+1", false, 0 },
        { "1x", false, 0 },
        { "0x10", false, 0 },
    };

    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
        Span word = { cases[i].text, strlen(cases[i].text) };
        uint64_t value = 0;

        g_assert_cmpint(scan_number(word, &value), ==, cases[i].good);
        g_assert_cmpuint(value, ==, cases[i].value);
    }
}

static void test_meminfo(void)
{
    g_autoptr(GError) error = NULL;
    Meminfo info;

    g_assert_true(meminfo_parse(MEMINFO, strlen(MEMINFO), &info, &error));
    g_assert_no_error(error);
    g_assert_cmpuint(info.total_bytes, ==, 24684084ull * 1024);
    g_assert_cmpuint(info.available_bytes, ==, 23488836ull * 1024);
    g_assert_cmpuint(info.free_bytes, ==, 18287972ull * 1024);
}

static void test_meminfo_bad(void)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        { "", "MemTotal: is missing" },
        { "\n\n\n", "MemTotal: is missing" },
        { "MemTotal: 1 kB\n", "MemFree: is missing" },
        { "MemTotal: 1 kB\nMemFree: 1 kB\n", "MemAvailable: is missing" },
        { "MemFree: 1 kB\nMemAvailable: 1 kB\n", "MemTotal: is missing" },
        { "MemTotal: 0 kB\nMemFree: 0 kB\nMemAvailable: 0 kB\n", "MemTotal: is zero" },
        { "MemTotal: kB\n", "MemTotal: is no size" },
        { "MemTotal:", "MemTotal: is no size" },
        { "MemTotal: -5 kB\n", "MemTotal: is no size" },
        { "MemTotal: 5 MB\n", "MemTotal: is no size" },
        { "MemTotal: 5\n", "MemTotal: is no size" },
        { "MemTotal: 18446744073709551615 kB\n", "MemTotal: is no size" },
        { "MemTotal: 1 kB\nMemAvailable: 5x kB\n", "MemAvailable: is no size" },
        { "XMemTotal: 1 kB\nMemFree: 1 kB\n", "MemTotal: is missing" },
    };

    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) error = NULL;
        Meminfo info;

        g_assert_false(
            meminfo_parse(cases[i].text, strlen(cases[i].text), &info, &error));
        g_assert_nonnull(strstr(error->message, cases[i].says));
    }
}

/* Every beginning of a good text, in a block of just that length. */
static void test_short(void)
{
    for (gsize length = 0; length < strlen(MEMINFO); length++) {
        g_autofree char *text = g_memdup2(MEMINFO, length);
        Meminfo info;

        meminfo_parse(text, length, &info, NULL);
    }
    for (gsize length = 0; length < strlen(PSI); length++) {
        g_autofree char *text = g_memdup2(PSI, length);
        PsiTotals totals;

        psi_parse(text, length, &totals, NULL);
    }
    for (gsize length = 0; length < strlen(ZONE("1")); length++) {
        g_autofree char *text = g_memdup2(ZONE("1"), length);
        uint64_t high;

        zoneinfo_parse(text, length, 4096, &high, NULL);
        statm_parse(text, length, 4096, &high, NULL);
    }
}

static void test_binary(void)
{
    for (int round = 0; round < 2000; round++) {
        gsize length = g_test_rand_int_range(1, 400);
        g_autofree char *text = g_malloc(length);
        PsiTotals totals;
        Meminfo info;
        uint64_t bytes;

        for (gsize i = 0; i < length; i++) {
            text[i] = g_test_rand_int_range(0, 256);
        }
        g_assert_false(meminfo_parse(text, length, &info, NULL));
        g_assert_false(psi_parse(text, length, &totals, NULL));
        g_assert_false(zoneinfo_parse(text, length, 4096, &bytes, NULL));
    }
}

static void test_huge(void)
{
    g_autoptr(GString) text = g_string_new(NULL);
    g_autoptr(GError) error = NULL;
    uint64_t high;
    Meminfo info;

    for (int zone = 0; zone < 20000; zone++) {
        g_string_append(text, ZONE("7"));
    }
    g_assert_true(zoneinfo_parse(text->str, text->len, 4096, &high, &error));
    g_assert_no_error(error);
    g_assert_cmpuint(high, ==, 20000ull * 7 * 4096);

    /* One line of a mebibyte, then what is looked for. */
    g_string_assign(text, "Junk: ");
    for (int i = 0; i < 1 << 16; i++) {
        g_string_append(text, "0123456789abcdef");
    }
    g_string_append(text, "\n" MEMINFO);
    g_assert_true(meminfo_parse(text->str, text->len, &info, &error));
}

static void test_zoneinfo(void)
{
    static const char two[] = ZONE("1000") ZONE("23");
    static const char none[] = "Node 0, zone DMA\n   high:  378\n";
    static const char bad[] = ZONE("many");
    static const char over[] = ZONE("18446744073709551615") ZONE("1");
    static const char large[] = ZONE("18446744073709551615");
    uint64_t high = 0;

    g_assert_true(zoneinfo_parse(two, strlen(two), 4096, &high, NULL));
    g_assert_cmpuint(high, ==, 1023 * 4096);
    g_assert_false(zoneinfo_parse(none, strlen(none), 4096, &high, NULL));
    g_assert_false(zoneinfo_parse(bad, strlen(bad), 4096, &high, NULL));
    g_assert_false(zoneinfo_parse(over, strlen(over), 4096, &high, NULL));
    g_assert_false(zoneinfo_parse(large, strlen(large), 4096, &high, NULL));
}

static void test_statm(void)
{
    static const char text[] = "1000 250 10 1 0 300 0\n";
    uint64_t rss = 0;

    g_assert_true(statm_parse(text, strlen(text), 4096, &rss, NULL));
    g_assert_cmpuint(rss, ==, 250 * 4096);
    g_assert_false(statm_parse("1000\n", 5, 4096, &rss, NULL));
    g_assert_false(statm_parse("1000 -2", 7, 4096, &rss, NULL));
    g_assert_false(statm_parse("1 18446744073709551615", 22, 4096, &rss, NULL));
}

static void test_psi(void)
{
    PsiTotals totals;
    static const struct {
        const char *text, *says;
    } cases[] = {
        { "", "'some' is missing" },
        { "some total=1\n", "'full' is missing" },
        { "full total=1\n", "'some' is missing" },
        { "some avg10=0.00\nfull total=1\n", "'some' has no total" },
        { "some total=\nfull total=1\n", "'some' has no total" },
        { "some total=1\nfull total=1x\n", "'full' has no total" },
        { "some total=-1\nfull total=1\n", "'some' has no total" },
    };

    g_assert_true(psi_parse(PSI, strlen(PSI), &totals, NULL));
    g_assert_cmpuint(totals.some_us, ==, 123456);
    g_assert_cmpuint(totals.full_us, ==, 7890);

    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) error = NULL;

        g_assert_false(psi_parse(cases[i].text, strlen(cases[i].text), &totals, &error));
        g_assert_nonnull(strstr(error->message, cases[i].says));
    }
}

/* A file takes whatever is written: see what it is, down to the NUL. */
static void test_trigger_text(void)
{
    g_autofree char *path = NULL, *text = NULL;
    g_autoptr(GError) error = NULL;
    unsigned int window_ms = 0;
    gsize length;
    int fd;

    fd = g_file_open_tmp("steer-psi-XXXXXX", &path, &error);
    g_assert_no_error(error);
    close(fd);

    fd = psi_trigger_open(path, PSI_FULL, 5, &window_ms, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(window_ms, ==, 100);
    close(fd);
    g_assert_true(g_file_get_contents(path, &text, &length, NULL));
    g_assert_cmpmem(text, length, "full 5000 100000", sizeof("full 5000 100000"));
    g_unlink(path);
}

static void test_trigger_missing(void)
{
    g_autoptr(GError) error = NULL;
    unsigned int window_ms;

    g_assert_cmpint(psi_trigger_open("/nowhere/memory", PSI_SOME, 10, &window_ms, &error),
                    ==, -1);
    g_assert_error(error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND);
}

/* The real file: whatever this kernel grants, it is one of the four. */
static void test_trigger_kernel(void)
{
    g_autoptr(GError) error = NULL;
    unsigned int window_ms = 0;
    int fd;

    fd = psi_trigger_open("/proc/pressure/memory", PSI_SOME, 10, &window_ms, &error);
    if (fd < 0) {
        g_test_skip(error->message);
        return;
    }
    g_test_message("the kernel grants a window of %u ms", window_ms);
    g_assert_true(window_ms == 100 || window_ms == 500 || window_ms == 1000 ||
                  window_ms == 2000);
    close(fd);
}

/* As the kernel's text changes below an open file. */
static void write_in_place(const char *path, const char *text)
{
    FILE *stream = g_fopen(path, "w");

    g_assert_nonnull(stream);
    g_assert_cmpint(fputs(text, stream), >=, 0);
    g_assert_cmpint(fclose(stream), ==, 0);
}

static void test_proc_file(void)
{
    g_autofree char *path = NULL;
    g_autoptr(GError) error = NULL;
    ProcFile file = PROC_FILE_INIT;
    char buffer[16];

    close(g_file_open_tmp("steer-proc-XXXXXX", &path, NULL));
    proc_file_init(&file, path);
    g_assert_cmpint(proc_file_read(&file, buffer, sizeof(buffer), NULL), ==, 0);

    write_in_place(path, "fifteen letters");
    g_assert_cmpint(proc_file_read(&file, buffer, sizeof(buffer), NULL), ==, 15);
    g_assert_cmpstr(buffer, ==, "fifteen letters");

    /* With its NUL it does not fit. */
    write_in_place(path, "sixteen letters.");
    g_assert_cmpint(proc_file_read(&file, buffer, sizeof(buffer), &error), ==, -1);
    g_assert_nonnull(strstr(error->message, path));
    g_clear_error(&error);

    g_unlink(path);
    g_assert_cmpint(proc_file_read(&file, buffer, sizeof(buffer), &error), ==, -1);
    g_assert_error(error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND);
    proc_file_clear(&file);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/pressure/numbers", test_numbers);
    g_test_add_func("/pressure/meminfo", test_meminfo);
    g_test_add_func("/pressure/meminfo-bad", test_meminfo_bad);
    g_test_add_func("/pressure/short", test_short);
    g_test_add_func("/pressure/binary", test_binary);
    g_test_add_func("/pressure/huge", test_huge);
    g_test_add_func("/pressure/zoneinfo", test_zoneinfo);
    g_test_add_func("/pressure/statm", test_statm);
    g_test_add_func("/pressure/psi", test_psi);
    g_test_add_func("/pressure/trigger-text", test_trigger_text);
    g_test_add_func("/pressure/trigger-missing", test_trigger_missing);
    g_test_add_func("/pressure/trigger-kernel", test_trigger_kernel);
    g_test_add_func("/pressure/proc-file", test_proc_file);
    return g_test_run();
}
