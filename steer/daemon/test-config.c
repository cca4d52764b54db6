/*
 * Configuration: what is taken, what is refused and in which words
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <string.h>
#include <glib/gstdio.h>
#include <gio/gio.h>

#include "config.h"
#include "control.h"
#include "status.h"

static Config *parse(const char *text, GError **errp)
{
    return config_parse(text, strlen(text), errp);
}

static void test_standard(void)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(Config) config = parse("", &error);
    ConfigVm vm;

    g_assert_no_error(error);
    g_assert_cmpuint(config->policy.urgent_delay_ms, ==, 50);
    g_assert_cmpstr(config->qmp_folder, ==, "/run/balloon-steer/qmp");
    g_assert_cmpint(config->psi, ==, CONFIG_PSI_TRIGGERS);
    vm = config_vm(config, "any");
    g_assert_cmpuint(vm.steer, ==, 1);
    g_assert_cmpuint(vm.weight, ==, 100);
    g_assert_cmpuint(vm.max_delay_ms, ==, 0);
}

/* Every key of the policy takes its bounds, and nothing beyond them. */
static void test_every_key(void)
{
    for (size_t i = 0; i < policy_config_keys_count; i++) {
        const PolicyConfigKey *key = &policy_config_keys[i];
        g_autofree char *above = g_strdup_printf("[policy]\n%s = %" G_GUINT64_FORMAT "\n",
                                                 key->key, (uint64_t)key->max + 1);
        g_autofree char *standard =
            g_strdup_printf("[policy]\n%s = %u\n", key->key, key->standard);
        g_autofree char *range = g_strdup_printf("from %u to %u", key->min, key->max);
        g_autoptr(GError) error = NULL;
        g_autoptr(Config) good = parse(standard, NULL);
        g_autoptr(Config) bad = parse(above, &error);

        g_assert_nonnull(good);
        g_assert_cmpuint(good->warnings->len, ==, 0);
        g_assert_null(bad);
        g_assert_nonnull(strstr(error->message, key->key));
        g_assert_nonnull(strstr(error->message, range));
        g_assert_nonnull(strstr(error->message, "text:2: "));
    }
}

static void test_refused(void)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        { "[policy]\n\n# x\nurgent-delay-ms = 50 ms\n",
          "text:4: [policy] urgent-delay-ms = 50 ms: must be a whole number "
          "from 0 to 600000" },
        { "[policy]\nurgent-delay-ms = -1\n", "= -1: must be" },
        { "[policy]\nurgent-delay-ms = \n", "= : must be" },
        { "[policy]\nurgent-delay-ms = 0x10\n", "= 0x10: must be" },
        { "[policy]\nurgent-delay-ms = 4294967296\n", "must be" },
        { "[policy]\nurgent-delay-ms = 99999999999999999999\n", "must be" },
        { "[policy]\nurgent-delay-ms = 5000\n", "urgent-delay-ms" },
        { "[daemon]\npsi = maybe\n", "must be triggers, totals or off" },
        { "[daemon]\nqmp-folder = qmp\n", "must be an absolute path" },
        { "[daemon]\nlock-file =\n", "must be a path" },
        { "[daemon]\nmetrics-interval-s = 0\n", "from 1 to 3600" },
        { "[vm a*]\nsteer = perhaps\n", "text:2: [vm a*] steer = perhaps: must "
                                        "be yes or no" },
        { "[vm a*]\nweight = 0\n", "from 1 to 10000" },
        { "[vm a]\nmin-delay-ms = 9\nmax-delay-ms = 8\n",
          "[vm a] min-delay-ms = 9: must be max-delay-ms, 8, at most" },
        { "urgent-delay-ms = 50\n", "text: " },
        { "[policy\n", "text: " },
        { "\xff\xfe", "is no UTF-8" },
    };

    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(Config) config = parse(cases[i].text, &error);

        g_assert_null(config);
        if (!strstr(error->message, cases[i].says)) {
            g_error("'%s' is not in: %s", cases[i].says, error->message);
        }
    }
}

static void test_warnings(void)
{
    g_autoptr(Config) config = parse("[policy]\nfast = 1\n\n[colours]\nx = 1\n"
                                     "[vm *]\nwait = 5\n",
                                     NULL);

    g_assert_nonnull(config);
    g_assert_cmpuint(config->warnings->len, ==, 3);
    g_assert_cmpstr(config->warnings->pdata[0], ==,
                    "text:2: [policy] has no key 'fast': ignored");
    g_assert_cmpstr(config->warnings->pdata[1], ==,
                    "text:4: there is no section [colours]: ignored");
    g_assert_cmpstr(config->warnings->pdata[2], ==,
                    "text:7: [vm *] has no key 'wait': ignored");
}

/* Of two sections that match, the later one's keys win, key by key. */
static void test_globs(void)
{
    g_autoptr(Config) config = parse("[vm web*]\nweight = 200\nmax-delay-ms = 5000\n"
                                     "[vm web1]\nweight = 300\n[vm *-db]\nsteer = no\n",
                                     NULL);

    g_assert_nonnull(config);
    g_assert_cmpuint(config_vm(config, "web1").weight, ==, 300);
    g_assert_cmpuint(config_vm(config, "web1").max_delay_ms, ==, 5000);
    g_assert_cmpuint(config_vm(config, "web2").weight, ==, 200);
    g_assert_cmpuint(config_vm(config, "webx-db").steer, ==, 0);
    g_assert_cmpuint(config_vm(config, "other").weight, ==, 100);
}

static void test_binary(void)
{
    for (int round = 0; round < 1000; round++) {
        gsize length = g_test_rand_int_range(0, 300);
        g_autofree char *text = g_malloc(length + 1);
        g_autoptr(Config) config = NULL;

        for (gsize i = 0; i < length; i++) {
            text[i] = g_test_rand_int_range(0, 256);
        }
        config = config_parse(text, length, NULL);
    }
}

static void test_files(void)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *folder = g_dir_make_tmp("steer-config-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(folder, "x.conf", NULL);
    g_autofree char *huge = g_malloc0(1024 * 1024 + 1);
    Config *config;

    g_assert_null(config_load(path, &error));
    g_assert_nonnull(strstr(error->message, path));
    g_clear_error(&error);

    g_assert_true(g_file_set_contents(path, huge, 1024 * 1024 + 1, NULL));
    g_assert_null(config_load(path, &error));
    g_assert_nonnull(strstr(error->message, "longer than 1 MiB"));
    g_clear_error(&error);

    g_assert_true(g_file_set_contents(path, "[policy]\nfloor-mib=7\n", -1, NULL));
    config = config_load(path, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(config->policy.floor_mib, ==, 7);
    g_assert_cmpstr(config->files->pdata[0], ==, path);
    config_free(config);
    g_unlink(path);
    g_rmdir(folder);
}

/* The file that is installed: as good as none, and every key is in it. */
static void test_installed_file(void)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *text = NULL;
    g_autoptr(Config) config = config_load(g_getenv("STEER_CONF"), &error);

    g_assert_no_error(error);
    g_assert_cmpuint(config->warnings->len, ==, 0);
    g_assert_true(g_file_get_contents(g_getenv("STEER_CONF"), &text, NULL, NULL));
    for (size_t i = 0; i < policy_config_keys_count; i++) {
        const PolicyConfigKey *key = &policy_config_keys[i];
        g_autofree char *line = g_strdup_printf("#%s = %u\n", key->key, key->standard);

        if (!strstr(text, line)) {
            g_error("%s is not in balloon-steer.conf", line);
        }
    }
}

/* Requests to the control socket, without a socket */

static char *ask(Engine *engine, const char *request, bool privileged)
{
    return control_answer(engine, request, strlen(request), privileged);
}

static void test_requests(void)
{
    static const struct {
        const char *request, *answer;
        bool privileged;
    } cases[] = {
        { "", "{\"error\":\"the request is no JSON object\"}", true },
        { "[]", "{\"error\":\"the request is no JSON object\"}", true },
        { "{\"command\":", "{\"error\":\"the request is no JSON object\"}", true },
        { "{}", "{\"error\":\"a request needs a 'command'\"}", true },
        { "{\"command\":5}", "{\"error\":\"a request needs a 'command'\"}", true },
        { "{\"command\":\"x\\\"y\"}", "{\"error\":\"there is no command 'x\\\"y'\"}",
          true },
        { "{\"command\":\"explain\"}", "{\"error\":\"'explain' needs a 'vm'\"}", true },
        { "{\"command\":\"explain\",\"vm\":\"a\"}", "{\"error\":\"there is no VM 'a'\"}",
          true },
        { "{\"command\":\"pin\",\"vm\":\"a\"}",
          "{\"error\":\"'pin' is for root and the daemon's own user\"}", false },
    };
    g_autoptr(GError) error = NULL;
    Config *config = parse("[daemon]\npsi = off\n", &error);
    Engine *engine;
    g_autofree char *status = NULL;

    g_assert_no_error(error);
    engine = engine_new(config, true);
    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *answer = ask(engine, cases[i].request, cases[i].privileged);

        g_assert_cmpstr(answer, ==, cases[i].answer);
    }
    status = ask(engine, "{\"command\":\"status\"}", false);
    g_assert_true(g_str_has_prefix(status, "{\"return\":{\"host\":{"));
    g_assert_true(g_str_has_suffix(status, "\"vms\":[]}}"));
    engine_free(engine);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/config/standard", test_standard);
    g_test_add_func("/config/every-key", test_every_key);
    g_test_add_func("/config/refused", test_refused);
    g_test_add_func("/config/warnings", test_warnings);
    g_test_add_func("/config/globs", test_globs);
    g_test_add_func("/config/binary", test_binary);
    g_test_add_func("/config/files", test_files);
    g_test_add_func("/config/installed-file", test_installed_file);
    g_test_add_func("/control/requests", test_requests);
    return g_test_run();
}
