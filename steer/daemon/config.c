/*
 * Configuration: key files with drop-ins
 *
 * Everything that may be set is in a table; a key that is in none is a
 * warning, a value that a table does not allow is an error.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <fnmatch.h>
#include <string.h>
#include <gio/gio.h>

#include "config.h"
#include "scan.h"

/* A configuration is a page; this is a mistake, such as a disk image. */
#define FILE_BYTES_MAX (1024 * 1024)

const char *const config_folders[] = { "/etc/balloon-steer", "/run/balloon-steer",
                                       "/usr/lib/balloon-steer", NULL };

/* Strings of the section [daemon]. */
typedef struct StringKey {
    const char *key;
    size_t offset;
    const char *standard;
    bool may_be_empty;
} StringKey;

static const StringKey string_keys[] = {
    { "qmp-folder", offsetof(Config, qmp_folder), "/run/balloon-steer/qmp", true },
    { "libvirt-uri", offsetof(Config, libvirt_uri), "", true },
    { "control-socket", offsetof(Config, control_socket), "/run/balloon-steer/control",
      false },
    { "lock-file", offsetof(Config, lock_file), "/run/balloon-steer/lock", false },
    { "metrics-file", offsetof(Config, metrics_file), "", true },
    { "proc-folder", offsetof(Config, proc_folder), "/proc", false },
};

/* Numbers of a section [vm GLOB]. */
typedef struct VmKey {
    const char *key;
    size_t offset;
    uint32_t min, max, standard;
    bool is_switch;
} VmKey;

static const VmKey vm_keys[] = {
    { "steer", offsetof(ConfigVm, steer), 0, 1, 1, true },
    { "weight", offsetof(ConfigVm, weight), 1, POLICY_WEIGHT_MAX, POLICY_WEIGHT_DEFAULT,
      false },
    { "min-delay-ms", offsetof(ConfigVm, min_delay_ms), 0, POLICY_DELAY_MS_MAX, 0,
      false },
    { "max-delay-ms", offsetof(ConfigVm, max_delay_ms), 0, POLICY_DELAY_MS_MAX, 0,
      false },
};

/* One file while it is read. */
typedef struct Source {
    Config *config;
    const char *name;
    const char *text;
    gsize length;
    GKeyFile *keys;
} Source;

static uint32_t *number_at(void *base, size_t offset)
{
    return (uint32_t *)((char *)base + offset);
}

static char **string_at(void *base, size_t offset)
{
    return (char **)((char *)base + offset);
}

/* The line of a key, or of its section if @key is NULL; 0 if not found. */
static unsigned int line_of(const Source *s, const char *group, const char *key)
{
    Span rest = { s->text, s->length }, line;
    unsigned int number = 0, found = 0;
    bool inside = false;

    while (scan_line(&rest, &line)) {
        g_autofree char *copy = g_strstrip(g_strndup(line.at, line.length));
        char *equals;

        number++;
        if (*copy == '[' && strchr(copy, ']')) {
            *strchr(copy, ']') = '\0';
            inside = g_str_equal(copy + 1, group);
            found = inside && !key ? number : found;
        } else if (inside && key && (equals = strchr(copy, '=')) != NULL) {
            *equals = '\0';
            /* The last one of several is the one that holds. */
            found = g_str_equal(g_strchomp(copy), key) ? number : found;
        }
    }
    return found;
}

static void G_GNUC_PRINTF(4, 5)
    warn(const Source *s, const char *group, const char *key, const char *format, ...)
{
    g_autofree char *text = NULL;
    va_list arguments;

    va_start(arguments, format);
    text = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_ptr_array_add(s->config->warnings,
                    g_strdup_printf("%s:%u: %s", s->name, line_of(s, group, key), text));
}

static bool bad_value(const Source *s, const char *group, const char *key,
                      const char *value, const char *allowed, GError **errp)
{
    g_set_error(errp, G_IO_ERROR, G_IO_ERROR_INVALID_DATA,
                "%s:%u: [%s] %s = %s: must be %s", s->name, line_of(s, group, key), group,
                key, value, allowed);
    return false;
}

static bool read_number(const Source *s, const char *group, const char *key, uint32_t min,
                        uint32_t max, uint32_t *number, GError **errp)
{
    g_autofree char *value = g_key_file_get_value(s->keys, group, key, NULL);
    g_autofree char *allowed = NULL;
    Span word = { value, strlen(value) };
    uint64_t wide;

    if (scan_number(word, &wide) && wide >= min && wide <= max) {
        *number = wide;
        return true;
    }
    allowed = g_strdup_printf("a whole number from %u to %u", min, max);
    return bad_value(s, group, key, value, allowed, errp);
}

static bool read_switch(const Source *s, const char *group, const char *key,
                        uint32_t *number, GError **errp)
{
    static const char *const yes[] = { "yes", "true", "on", "1", NULL };
    static const char *const no[] = { "no", "false", "off", "0", NULL };
    g_autofree char *value = g_key_file_get_value(s->keys, group, key, NULL);

    *number = g_strv_contains(yes, value);
    return *number || g_strv_contains(no, value) ||
           bad_value(s, group, key, value, "yes or no", errp);
}

static bool read_psi(const Source *s, const char *group, const char *key, GError **errp)
{
    static const char *const names[] = { "triggers", "totals", "off", NULL };
    g_autofree char *value = g_key_file_get_value(s->keys, group, key, NULL);

    for (unsigned int i = 0; names[i]; i++) {
        if (g_str_equal(value, names[i])) {
            s->config->psi = i;
            return true;
        }
    }
    return bad_value(s, group, key, value, "triggers, totals or off", errp);
}

static bool read_string(const Source *s, const char *group, const StringKey *known,
                        GError **errp)
{
    g_autofree char *value = g_key_file_get_string(s->keys, group, known->key, NULL);
    char **string = string_at(s->config, known->offset);
    bool is_path = !g_str_equal(known->key, "libvirt-uri");

    if (!value) {
        return bad_value(s, group, known->key, "?", "text", errp);
    }
    if (!*value && !known->may_be_empty) {
        return bad_value(s, group, known->key, "", "a path", errp);
    }
    if (*value && is_path && !g_path_is_absolute(value)) {
        return bad_value(s, group, known->key, value, "an absolute path", errp);
    }
    g_free(*string);
    *string = g_steal_pointer(&value);
    return true;
}

static bool read_daemon(const Source *s, const char *group, const char *key,
                        GError **errp)
{
    for (gsize i = 0; i < G_N_ELEMENTS(string_keys); i++) {
        if (g_str_equal(key, string_keys[i].key)) {
            return read_string(s, group, &string_keys[i], errp);
        }
    }
    if (g_str_equal(key, "metrics-interval-s")) {
        return read_number(s, group, key, 1, 3600, &s->config->metrics_interval_s, errp);
    }
    if (g_str_equal(key, "psi")) {
        return read_psi(s, group, key, errp);
    }
    warn(s, group, key, "[%s] has no key '%s': ignored", group, key);
    return true;
}

static bool read_policy(const Source *s, const char *group, const char *key,
                        GError **errp)
{
    for (size_t i = 0; i < policy_config_keys_count; i++) {
        const PolicyConfigKey *known = &policy_config_keys[i];

        if (g_str_equal(key, known->key)) {
            return read_number(s, group, key, known->min, known->max,
                               number_at(&s->config->policy, known->offset), errp);
        }
    }
    warn(s, group, key, "[%s] has no key '%s': ignored", group, key);
    return true;
}

static bool read_vm_key(const Source *s, const char *group, const char *key, ConfigVm *vm,
                        GError **errp)
{
    for (gsize i = 0; i < G_N_ELEMENTS(vm_keys); i++) {
        const VmKey *known = &vm_keys[i];
        uint32_t *number = number_at(vm, known->offset);

        if (g_str_equal(key, known->key)) {
            return known->is_switch
                       ? read_switch(s, group, key, number, errp)
                       : read_number(s, group, key, known->min, known->max, number, errp);
        }
    }
    warn(s, group, key, "[%s] has no key '%s': ignored", group, key);
    return true;
}

static void vm_free(gpointer opaque)
{
    ConfigVm *vm = opaque;

    g_free(vm->glob);
    g_free(vm);
}

static ConfigVm *vm_add(Config *config, const char *glob)
{
    ConfigVm *vm = g_new0(ConfigVm, 1);

    vm->glob = g_strstrip(g_strdup(glob));
    for (gsize i = 0; i < G_N_ELEMENTS(vm_keys); i++) {
        *number_at(vm, vm_keys[i].offset) = CONFIG_UNSET;
    }
    g_ptr_array_add(config->vms, vm);
    return vm;
}

static bool read_key(const Source *s, const char *group, const char *key, ConfigVm *vm,
                     GError **errp)
{
    if (vm) {
        return read_vm_key(s, group, key, vm, errp);
    }
    return g_str_equal(group, "policy") ? read_policy(s, group, key, errp)
                                        : read_daemon(s, group, key, errp);
}

static bool read_group(const Source *s, const char *group, GError **errp)
{
    g_auto(GStrv) keys = g_key_file_get_keys(s->keys, group, NULL, errp);
    ConfigVm *vm = NULL;

    if (!keys) {
        return false;
    }
    if (g_str_has_prefix(group, "vm ")) {
        vm = vm_add(s->config, group + strlen("vm "));
    } else if (!g_str_equal(group, "policy") && !g_str_equal(group, "daemon")) {
        warn(s, group, NULL, "there is no section [%s]: ignored", group);
        return true;
    }
    for (char **key = keys; *key; key++) {
        if (!read_key(s, group, *key, vm, errp)) {
            return false;
        }
    }
    return true;
}

static bool read_text(Config *config, const char *name, const char *text, gsize length,
                      GError **errp)
{
    g_autoptr(GKeyFile) keys = g_key_file_new();
    g_auto(GStrv) groups = NULL;
    Source s = { config, name, text, length, keys };

    if (!g_utf8_validate_len(text, length, NULL)) {
        g_set_error(errp, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, "%s: is no UTF-8 text",
                    name);
        return false;
    }
    if (!g_key_file_load_from_data(keys, text, length, G_KEY_FILE_NONE, errp)) {
        g_prefix_error(errp, "%s: ", name);
        return false;
    }
    groups = g_key_file_get_groups(keys, NULL);
    for (char **group = groups; *group; group++) {
        if (!read_group(&s, *group, errp)) {
            return false;
        }
    }
    return true;
}

static bool read_file(Config *config, const char *path, GError **errp)
{
    g_autoptr(GFile) file = g_file_new_for_path(path);
    g_autoptr(GFileInfo) info = NULL;
    g_autofree char *text = NULL;
    gsize length;

    info = g_file_query_info(file, G_FILE_ATTRIBUTE_STANDARD_SIZE, G_FILE_QUERY_INFO_NONE,
                             NULL, errp);
    if (!info) {
        g_prefix_error(errp, "%s: ", path);
        return false;
    }
    if (g_file_info_get_size(info) > FILE_BYTES_MAX) {
        g_set_error(errp, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, "%s: is longer than 1 MiB",
                    path);
        return false;
    }
    if (!g_file_get_contents(path, &text, &length, errp)) {
        return false;
    }
    g_ptr_array_add(config->files, g_strdup(path));
    return read_text(config, path, text, length, errp);
}

static int compare_entries(gconstpointer a, gconstpointer b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Of each name the one in the strongest folder, in the order of names. */
static GPtrArray *find_drop_ins(void)
{
    g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
    GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
    GPtrArray *paths = g_ptr_array_new_with_free_func(g_free);

    for (const char *const *folder = config_folders; *folder; folder++) {
        g_autofree char *path = g_strdup_printf("%s/" CONFIG_FILE ".d", *folder);
        g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
        const char *name;

        while (dir && (name = g_dir_read_name(dir)) != NULL) {
            if (g_str_has_suffix(name, ".conf") && !g_hash_table_contains(seen, name)) {
                /* Name first: that is what they are sorted by. */
                char *entry = g_strdup_printf("%s\n%s/%s", name, path, name);

                g_ptr_array_add(names, entry);
                g_hash_table_add(seen, (char *)g_intern_string(name));
            }
        }
    }
    g_ptr_array_sort(names, compare_entries);
    for (guint i = 0; i < names->len; i++) {
        g_ptr_array_add(paths, g_strdup(strchr(names->pdata[i], '\n') + 1));
    }
    g_ptr_array_unref(names);
    return paths;
}

static bool read_usual_files(Config *config, GError **errp)
{
    g_autoptr(GPtrArray) drop_ins = find_drop_ins();

    for (const char *const *folder = config_folders; *folder; folder++) {
        g_autofree char *path = g_strdup_printf("%s/" CONFIG_FILE, *folder);

        if (g_file_test(path, G_FILE_TEST_EXISTS)) {
            if (!read_file(config, path, errp)) {
                return false;
            }
            break;
        }
    }
    for (guint i = 0; i < drop_ins->len; i++) {
        if (!read_file(config, drop_ins->pdata[i], errp)) {
            return false;
        }
    }
    return true;
}

static Config *config_new(void)
{
    Config *config = g_new0(Config, 1);

    policy_config_init(&config->policy);
    for (gsize i = 0; i < G_N_ELEMENTS(string_keys); i++) {
        *string_at(config, string_keys[i].offset) = g_strdup(string_keys[i].standard);
    }
    config->metrics_interval_s = 15;
    config->vms = g_ptr_array_new_with_free_func(vm_free);
    config->files = g_ptr_array_new_with_free_func(g_free);
    config->warnings = g_ptr_array_new_with_free_func(g_free);
    return config;
}

void config_free(Config *config)
{
    for (gsize i = 0; i < G_N_ELEMENTS(string_keys); i++) {
        g_free(*string_at(config, string_keys[i].offset));
    }
    g_ptr_array_unref(config->vms);
    g_ptr_array_unref(config->files);
    g_ptr_array_unref(config->warnings);
    g_free(config);
}

/* What no single key can tell. */
static bool config_check(const Config *config, GError **errp)
{
    char message[256];

    if (!policy_config_check(&config->policy, message, sizeof(message))) {
        g_set_error(errp, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, "[policy] %s", message);
        return false;
    }
    for (guint i = 0; i < config->vms->len; i++) {
        const ConfigVm *vm = config->vms->pdata[i];

        if (vm->max_delay_ms != CONFIG_UNSET && vm->max_delay_ms &&
            vm->min_delay_ms != CONFIG_UNSET && vm->min_delay_ms > vm->max_delay_ms) {
            g_set_error(errp, G_IO_ERROR, G_IO_ERROR_INVALID_DATA,
                        "[vm %s] min-delay-ms = %u: must be max-delay-ms, %u, "
                        "at most",
                        vm->glob, vm->min_delay_ms, vm->max_delay_ms);
            return false;
        }
    }
    return true;
}

Config *config_load(const char *file, GError **errp)
{
    g_autoptr(Config) config = config_new();

    if (!(file ? read_file(config, file, errp) : read_usual_files(config, errp)) ||
        !config_check(config, errp)) {
        return NULL;
    }
    return g_steal_pointer(&config);
}

Config *config_parse(const char *text, gsize length, GError **errp)
{
    g_autoptr(Config) config = config_new();

    if (!read_text(config, "text", text, length, errp) || !config_check(config, errp)) {
        return NULL;
    }
    return g_steal_pointer(&config);
}

ConfigVm config_vm(const Config *config, const char *name)
{
    ConfigVm result = { .glob = NULL };

    for (gsize k = 0; k < G_N_ELEMENTS(vm_keys); k++) {
        *number_at(&result, vm_keys[k].offset) = vm_keys[k].standard;
    }
    for (guint i = 0; i < config->vms->len; i++) {
        ConfigVm *vm = config->vms->pdata[i];

        for (gsize k = 0; k < G_N_ELEMENTS(vm_keys); k++) {
            uint32_t value = *number_at(vm, vm_keys[k].offset);

            if (value != CONFIG_UNSET && fnmatch(vm->glob, name, 0) == 0) {
                *number_at(&result, vm_keys[k].offset) = value;
            }
        }
    }
    return result;
}
